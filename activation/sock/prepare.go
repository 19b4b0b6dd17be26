package sock

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// InlineUrgent has urgent data of clients, who connect to a listening TCP socket from now
// on, come in line. The kernel drops bytes of who sends two urgent ones before that.
func InlineUrgent(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_OOBINLINE, 1); err != nil {
		return fmt.Errorf("set SO_OOBINLINE on descriptor %d: %w", fd, err)
	}
	return nil
}

// Prepare makes a received socket fit for an event loop: closed on exec, and
// non-blocking. Both are set again on everything received, as the sender may
// have had neither. O_NONBLOCK belongs to the socket and not to the descriptor,
// so every holder of the socket sees it.
func Prepare(fd int) error {
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil {
		return fmt.Errorf("set close-on-exec on descriptor %d: %w", fd, err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return fmt.Errorf("set descriptor %d non-blocking: %w", fd, err)
	}
	return nil
}
