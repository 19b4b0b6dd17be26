package systemd

import "golang.org/x/sys/unix"

// retryEINTR repeats a system call that a signal interrupted: the Go runtime
// sends itself some, to preempt goroutines.
func retryEINTR(call func() error) error {
	for {
		if err := call(); err != unix.EINTR { //nolint:errorlint // a bare errno
			return err
		}
	}
}
