package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/pidfd"
)

// freeze stops a process (SIGSTOP), and returns when none of its threads runs any more:
// the signal is only noted when it is sent. One that has ended is no error.
func freeze(ctx context.Context, p *pidfd.Process) error {
	if err := p.Signal(unix.SIGSTOP); err != nil {
		if errors.Is(err, pidfd.ErrExited) {
			return nil
		}
		return err
	}
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !stands(p.PID()) {
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("stop %s for a moment: %w", p, ctx.Err())
		}
	}
	return nil
}

// stands tells whether all threads of a process are stopped, or have ended
// (proc_pid_stat(5)).
func stands(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			continue // it has ended
		}
		name := bytes.LastIndexByte(stat, ')') // which may hold anything
		if state := bytes.TrimSpace(stat[name+1:]); len(state) > 0 && !bytes.ContainsAny(state[:1], "TtZX") {
			return false
		}
	}
	return true
}
