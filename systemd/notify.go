package systemd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// notifyPatience is how long a message waits for a manager whose queue is full.
	notifyPatience = 5 * time.Second

	maxMessageFDs  = 253  // SCM_MAX_FD of the kernel
	maxMessageText = 4096 // bytes; systemd drops longer messages, NOTIFY_BUFFER_MAX
)

// ErrNoManager means that there is no service manager to talk to: none has asked
// to be told, or none can be asked.
var ErrNoManager = errors.New("no service manager to talk to")

// Notifier tells the service manager about the state of this service, as
// sd_notify(3). A nil Notifier says nothing, as nobody asked to be told, and is
// fine with that; only what the caller must rely on is ErrNoManager then.
//
// Each call is one datagram and may be made from any goroutine. It returns when
// the manager's queue has the message, not when the manager has read it: for that
// there is Barrier. Messages are read in the order in which they were sent.
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

// Environ is the variable that NotifierFromEnv reads, for a process that is to speak
// for this service, too.
func (n *Notifier) Environ() []string {
	if n == nil {
		return nil
	}
	return []string{"NOTIFY_SOCKET=" + n.socket}
}

// MainPID says that another process is the main one of the service from now on. It has
// to be in the service's control group.
func (n *Notifier) MainPID(pid int) error {
	return n.Send("MAINPID=" + strconv.Itoa(pid))
}

// Ready says that the service has started, or that a reload is over.
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
	return n.SendFDs(nil, assignments...)
}

// SendFDs sends descriptors beside the assignments, 253 at most, as FDSTORE=1
// wants them. The manager gets copies; the caller keeps its own.
//
// An error means that nothing was sent. It is ErrNoManager for a nil Notifier, and
// ETOOMANYREFS when more descriptors are under way than the user of this process
// may have open. None does not mean that the manager keeps the descriptors: it
// does not answer.
func (n *Notifier) SendFDs(fds []int, assignments ...string) error {
	if n == nil {
		return fmt.Errorf("notify: %w", ErrNoManager)
	}
	for _, a := range assignments {
		if strings.Contains(a, "\n") || strings.IndexByte(a, '=') < 1 {
			return fmt.Errorf("notify the service manager: %.100q is not an assignment", a)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), notifyPatience)
	defer cancel()
	return n.send(ctx, fds, strings.Join(assignments, "\n"))
}

// send waits for a place in the manager's queue until ctx ends.
func (n *Notifier) send(ctx context.Context, fds []int, message string) error {
	var err error
	switch {
	case len(fds) > maxMessageFDs:
		err = fmt.Errorf("%d descriptors are more than the %d of one message", len(fds), maxMessageFDs)
	case len(message) > maxMessageText:
		err = fmt.Errorf("a message of %d bytes is longer than the %d that it reads", len(message), maxMessageText)
	default:
		err = n.write(ctx, []byte(message), fds)
	}
	if err != nil {
		return fmt.Errorf("notify the service manager at %s: %w", n.socket, err)
	}
	return nil
}

func (n *Notifier) write(ctx context.Context, message []byte, fds []int) error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return withoutAddress(err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetWriteDeadline(longAgo) })()
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	err = sendmsg(conn, message, rights)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("its queue stays full: %w", ctx.Err())
	case errors.Is(err, unix.ETOOMANYREFS):
		return fmt.Errorf("more descriptors are in flight than this user may have: %w", err)
	}
	return err
}

// sendmsg does what (*net.UnixConn).WriteMsgUnix refuses to do on a connected
// datagram socket. An unconnected one would not be told when the queue has room.
func sendmsg(conn *net.UnixConn, message, rights []byte) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var sendErr error
	err = raw.Write(func(fd uintptr) (done bool) {
		sendErr = retryEINTR(func() error {
			return unix.Sendmsg(int(fd), message, rights, nil, unix.MSG_NOSIGNAL)
		})
		return !errors.Is(sendErr, unix.EAGAIN)
	})
	if err != nil {
		return err
	}
	return os.NewSyscallError("sendmsg", sendErr)
}

// longAgo is a deadline that ends what waits now.
var longAgo = time.Unix(1, 0)

// withoutAddress drops what the caller says anyway.
func withoutAddress(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}
