package main

import (
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-proxy/holdfast/vmtest/wire"
)

// agent has the methods that the host calls.
type agent struct{}

// runAgent answers the host for as long as the machine runs.
func runAgent() error {
	server := rpc.NewServer()
	if err := server.RegisterName(wire.Service, agent{}); err != nil {
		return err
	}
	if port := findPort(); port != "" {
		return serveOnPort(server, port)
	}
	l, err := net.Listen("unix", wire.SocketPath)
	if err != nil {
		return err
	}
	server.Accept(l)
	return nil
}

// findPort is the device of the agent's virtio port, "" if there is none. The
// names in /dev/virtio-ports are udev's work, which these machines do without.
func findPort() string {
	names, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
	for _, file := range names {
		if name, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(name)) == wire.PortName {
			return filepath.Join("/dev", filepath.Base(filepath.Dir(file)))
		}
	}
	return ""
}

func serveOnPort(server *rpc.Server, device string) error {
	port, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	server.ServeConn(port)
	return errors.New("the host has gone")
}

// Put writes a file and makes the folders above it.
func (agent) Put(f wire.File, _ *wire.Nothing) error {
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
		return err
	}
	// A program that runs cannot be written to, but its name can be given to another file.
	if err := os.Remove(f.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(f.Path, f.Content, os.FileMode(f.Mode)); err != nil {
		return err
	}
	return os.Chmod(f.Path, os.FileMode(f.Mode))
}

// Get reads a file.
func (agent) Get(path string, f *wire.File) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	*f = wire.File{Path: path, Content: content, Mode: uint32(info.Mode().Perm())}
	return nil
}
