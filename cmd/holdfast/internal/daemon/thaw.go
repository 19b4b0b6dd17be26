package daemon

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/pidfd"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// ThawCommand is the verb that runs [Thaw], for this program alone.
const ThawCommand = "thaw"

// thaw is a child of this process that undoes a freeze if this one dies before it could:
// nobody else would let the other program run again.
type thaw struct {
	command *exec.Cmd
	pipe    io.WriteCloser // its end is the end of this process
}

// newThaw returns when the child is ready. It has copies of the sockets that are to be
// blocking again.
func newThaw(pid int, blocking []*sock.FD) (*thaw, error) {
	t := &thaw{command: exec.Command("/proc/self/exe", ThawCommand, strconv.Itoa(pid))}
	t.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a terminal signals its foreground
	for _, fd := range blocking {
		raw, err := unix.FcntlInt(uintptr(fd.Raw()), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("duplicate descriptor %d: %w", fd.Raw(), err)
		}
		file := os.NewFile(uintptr(raw), "")
		defer file.Close()
		t.command.ExtraFiles = append(t.command.ExtraFiles, file)
	}
	said, err := t.command.StdoutPipe()
	if err == nil {
		t.pipe, err = t.command.StdinPipe()
	}
	if err == nil {
		err = t.command.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start a process that ends a freeze: %w", err)
	}
	if _, err := io.ReadFull(said, make([]byte, 1)); err != nil {
		t.dismiss()
		return nil, fmt.Errorf("start a process that ends a freeze: %w", err)
	}
	return t, nil
}

// dismiss ends the child when there is nothing to be undone any more. It does nothing for
// nil.
func (t *thaw) dismiss() {
	if t == nil {
		return
	}
	_, _ = t.pipe.Write([]byte{1})
	_ = t.pipe.Close()
	_ = t.command.Wait()
}

// Thaw is what the child does. It has the sockets from descriptor 3 on, says a byte on
// standard output when it is ready, and waits for one on standard input. If the end comes
// instead it lets the process run that has the PID, with the sockets blocking.
func Thaw(pid int) error {
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP) // it may be ended as a part of a service that has died
	p, err := pidfd.Open(pid)
	if err != nil {
		return err
	}
	defer p.Close()
	if _, err := os.Stdout.Write([]byte{1}); err != nil {
		return err
	}
	if word, _ := io.ReadAll(os.Stdin); len(word) > 0 {
		return nil
	}
	for fd := 3; isSocket(fd); fd++ {
		err = errors.Join(err, unix.SetNonblock(fd, false))
	}
	return errors.Join(err, p.Signal(unix.SIGCONT))
}

func isSocket(fd int) bool {
	_, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	return err == nil
}
