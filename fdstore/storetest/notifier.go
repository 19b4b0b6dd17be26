package storetest

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Notifier is the least that sends messages to a manager, systemd too.
type Notifier struct {
	Socket string // NOTIFY_SOCKET
}

// SendFDs implements fdstore.Manager.
func (n *Notifier) SendFDs(fds []int, assignments ...string) error {
	raw, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(raw)
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	for {
		err := unix.Sendmsg(raw, []byte(strings.Join(assignments, "\n")), rights, &unix.SockaddrUnix{Name: n.Socket}, unix.MSG_NOSIGNAL)
		if err != unix.EINTR {
			return err
		}
	}
}

// Barrier implements fdstore.Manager.
func (n *Notifier) Barrier(ctx context.Context) error {
	answer, question, err := os.Pipe()
	if err != nil {
		return err
	}
	defer answer.Close()
	raw, err := question.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Control(func(fd uintptr) { sent = n.SendFDs([]int{int(fd)}, "BARRIER=1") })
	_ = question.Close()
	if err != nil {
		return err
	}
	if sent != nil {
		return sent
	}
	defer context.AfterFunc(ctx, func() { _ = answer.SetReadDeadline(time.Unix(1, 0)) })()
	if _, err = io.Copy(io.Discard, answer); err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
