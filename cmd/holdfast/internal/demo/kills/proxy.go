package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// proxy is Holdfast under its keeper.
type proxy struct {
	binary, dir string
	address     string // of its listener
	keeper      *exec.Cmd
	ended       chan struct{} // closed when the keeper has ended
	pid         int           // of the process that serves
}

func startProxy(binary, upstream string) (*proxy, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "holdfast-demo")
	if err != nil {
		return nil, err
	}
	p := &proxy{binary: binary, dir: dir, address: address, ended: make(chan struct{})}
	p.keeper = exec.Command(binary, "keep", "--", binary, "serve",
		"--listen", "tcp://"+address, "--upstream", "tcp://"+upstream,
		"--control-socket", p.control(), "--handover-socket", filepath.Join(dir, "handover.sock"))
	log, err := os.Create(p.log())
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	p.keeper.Stdout, p.keeper.Stderr = log, log
	p.keeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the demo
	if err := p.keeper.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	go func() { // ends with the keeper
		_ = p.keeper.Wait()
		close(p.ended)
	}()
	if err := p.awaitAnother(0); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *proxy) control() string { return filepath.Join(p.dir, "control.sock") }

func (p *proxy) log() string { return filepath.Join(p.dir, "log") }

// freeAddress is one that nobody listens at now.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// awaitAnother waits until a process serves that is not the former one.
func (p *proxy) awaitAnother(former int) error {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		said, err := exec.Command(p.binary, "status", "--json", "--control-socket", p.control()).Output()
		var s struct {
			PID   int
			State string
		}
		if err == nil && json.Unmarshal(said, &s) == nil && s.PID != former && s.State == "running" {
			p.pid = s.PID
			return nil
		}
	}
	log, _ := os.ReadFile(p.log())
	return fmt.Errorf("holdfast does not serve within %v:\n%s", patience, log)
}

// stop ends the keeper, and with it the proxy.
func (p *proxy) stop() {
	_ = p.keeper.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(patience):
		_ = p.keeper.Process.Kill()
	}
	_ = os.RemoveAll(p.dir)
}
