package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// mainPIDPatience is how long the service manager may take to learn which process is the
// main one now. This process does not end before: the manager would take that for the end
// of the service, and end its successor with it. A busy host, or a daemon-reload with
// thousands of units, keeps PID 1 away for minutes.
const mainPIDPatience = 5 * time.Minute

// tellMainPID has the service manager supervise the process that has taken over. That is
// the last thing that this one tells: the other one speaks for the service.
//
// A process of another service, or of somebody's terminal, is none that the manager can
// supervise, although systemd takes the word of root for it: it would not learn of its
// end. The manager is told nothing then, and keeps nothing any more: what it has is the
// other process's. It learns that this process ends, and does what the unit says: the next
// one that it starts takes over in its turn.
func (d *daemon) tellMainPID(pid int) {
	told := d.upgrading.done
	switch {
	case d.notify == nil:
		told()
	case !supervisable(pid):
		d.log.Warn("the process that has taken over is not one of this service: its service manager sees the service end", "pid", pid)
		d.telling.hush()
		d.keep.clear()
		told()
	default:
		d.telling.finish(func() error {
			defer told()
			return d.sendMainPID(context.Background(), pid)
		})
	}
}

// lead makes this process the main one, before it ends the one that is: the manager would
// take that for the end of the service, and end this one with it.
func (d *daemon) lead(ctx context.Context) error {
	if d.notify == nil {
		return nil
	}
	return d.sendMainPID(ctx, os.Getpid())
}

// sendMainPID returns when the manager has acted on the message.
func (d *daemon) sendMainPID(ctx context.Context, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, mainPIDPatience)
	defer cancel()
	err := d.notify.MainPID(pid)
	for errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil { // its queue is full
		err = d.notify.MainPID(pid)
	}
	if err != nil {
		return err
	}
	return d.notify.Barrier(ctx)
}

// supervisable tells whether a process is one of the service that this process belongs to:
// in its control group, or in one below.
func supervisable(pid int) bool {
	if pid == 0 {
		return false
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return false
	}
	theirs, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	return err == nil && isWithin(cgroupOf(string(theirs)), cgroupOf(string(own)))
}

// cgroupOf is the path of a control group, as /proc/PID/cgroup tells it (cgroups(7)): that
// of the hierarchy that systemd uses.
func cgroupOf(text string) string {
	unified := ""
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		switch controllers {
		case "name=systemd": // of version 1
			return path
		case "":
			unified = path
		}
	}
	return unified
}

func isWithin(path, group string) bool {
	return path == group || strings.HasPrefix(path, strings.TrimSuffix(group, "/")+"/")
}
