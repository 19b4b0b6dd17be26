package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// groupPatience is for processes to end that were killed.
const groupPatience = 10 * time.Second

// group is a control group for one command, below that of the agent. No process
// leaves it by itself, not even one that makes a session of its own.
type group struct {
	path string
	dir  *os.File
}

func newGroup() (*group, error) {
	own, err := ownGroup()
	if err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(own, "command-")
	if err != nil {
		return nil, err
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return &group{path, dir}, nil
}

// ownGroup is the folder of this process's group, of version 2: see cgroups(7).
func ownGroup() (string, error) {
	list, err := os.Open("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	defer list.Close()
	for lines := bufio.NewScanner(list); lines.Scan(); {
		if path, ok := strings.CutPrefix(lines.Text(), "0::"); ok {
			return filepath.Join("/sys/fs/cgroup", path), nil
		}
	}
	return "", errors.New("the agent is in no control group")
}

// fd is the folder of the group, for a process to be started in it.
func (g *group) fd() int { return int(g.dir.Fd()) }

// kill kills all in the group at once, those that are just being started with it.
func (g *group) kill() error {
	return os.WriteFile(filepath.Join(g.path, "cgroup.kill"), []byte("1"), 0)
}

// end kills what is left in the group and removes it. It returns when they have
// ended.
func (g *group) end() error {
	_ = g.dir.Close()
	if err := g.kill(); err != nil {
		return err
	}
	for end := time.Now().Add(groupPatience); ; time.Sleep(time.Millisecond) {
		err := os.Remove(g.path) // fails while a process of it lives
		if err == nil || !errors.Is(err, unix.EBUSY) {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("a killed process does not end: %w", err)
		}
	}
}
