package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

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

// Run runs a program to its end. That it fails is a result and no error.
func (agent) Run(c wire.Command, r *wire.Result) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(c.Stdin), &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for pipes that a child in the background holds open

	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		return err
	}
	r.Stdout, r.Stderr = stdout.Bytes(), stderr.Bytes()
	r.Code = cmd.ProcessState.ExitCode()
	r.TimedOut = ctx.Err() != nil
	return nil
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
