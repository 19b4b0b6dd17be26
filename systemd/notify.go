package systemd

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// notifyPatience is how long a message waits for a manager whose queue is full.
const notifyPatience = 5 * time.Second

// Notifier tells the service manager about the state of this service, as
// sd_notify(3). A nil Notifier does nothing: nobody asked to be told.
//
// Each call is one datagram and may be made from any goroutine. It returns when
// the manager's queue has the message, not when the manager has read it.
type Notifier struct {
	socket string // path, or "@name" in the abstract name space
}

// NotifierFromEnv makes the Notifier that $NOTIFY_SOCKET asks for, nil when it
// is not set, and unsets the variable: a child must not speak for the service.
func NotifierFromEnv() (*Notifier, error) {
	path := os.Getenv("NOTIFY_SOCKET")
	_ = os.Unsetenv("NOTIFY_SOCKET") // fails for malformed names only
	if path == "" {
		return nil, nil //nolint:nilnil // a nil Notifier is a working one
	}
	if path[0] != '/' && path[0] != '@' {
		return nil, fmt.Errorf("NOTIFY_SOCKET=%.100q is neither a path nor an abstract name", path)
	}
	return &Notifier{socket: path}, nil
}

// Ready says that the service has started, or has finished its reload.
func (n *Notifier) Ready() error {
	return n.Send("READY=1")
}

// Stopping says that the service has begun to stop.
func (n *Notifier) Stopping() error {
	return n.Send("STOPPING=1")
}

// Status sets the line that "systemctl status" shows.
func (n *Notifier) Status(text string) error {
	// A line break would begin another assignment.
	return n.Send("STATUS=" + strings.ReplaceAll(text, "\n", " "))
}

// ExtendTimeout asks for d more, from now on, before the manager gives up on a
// start, a reload or a stop. It is to be repeated before d is over.
func (n *Notifier) ExtendTimeout(d time.Duration) error {
	return n.Send("EXTEND_TIMEOUT_USEC=" + strconv.FormatInt(d.Microseconds(), 10))
}

// Send sends assignments like "READY=1" in one message, for which there is no
// method of their own or which belong together.
func (n *Notifier) Send(assignments ...string) error {
	if n == nil {
		return nil
	}
	for _, a := range assignments {
		if strings.Contains(a, "\n") || strings.IndexByte(a, '=') < 1 {
			return fmt.Errorf("notify the service manager: %.100q is not an assignment", a)
		}
	}
	if err := n.send(strings.Join(assignments, "\n")); err != nil {
		return fmt.Errorf("notify the service manager at %s: %w", n.socket, err)
	}
	return nil
}

func (n *Notifier) send(message string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	patience := unix.NsecToTimeval(notifyPatience.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &patience); err != nil {
		return err
	}
	return retryEINTR(func() error {
		return unix.Sendto(fd, []byte(message), unix.MSG_NOSIGNAL, &unix.SockaddrUnix{Name: n.socket})
	})
}

// retryEINTR repeats a system call that a signal interrupted: the Go runtime
// sends itself some, to preempt goroutines.
func retryEINTR(call func() error) error {
	for {
		if err := call(); err != unix.EINTR { //nolint:errorlint // a bare errno
			return err
		}
	}
}
