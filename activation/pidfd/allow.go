package pidfd

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Allow lets a process take descriptors of this one where kernel.yama.ptrace_scope
// is 1 (PR_SET_PTRACER, prctl(2)), and all that descend from it: who allows its
// parent allows what that starts later. It takes the place of who was allowed
// before, and ends when this process or the allowed one does.
//
// It gives no more than Yama has taken: the other one needs the same user, and so on.
// It does nothing where there is no Yama, or with another scope. The error wraps
// ESRCH when there is no such process.
//
// The allowed process may trace this one, too, and so read and change all that it
// has: allow one that is trusted so far.
func Allow(pid int) error {
	if pid <= 0 { // 0 is nobody and -1 everybody
		return fmt.Errorf("allow process %d to take descriptors: %w", pid, unix.ESRCH)
	}
	if err := prctlPtracer(0); errors.Is(err, unix.EINVAL) {
		return nil // no Yama
	}
	err := prctlPtracer(pid)
	if errors.Is(err, unix.EINVAL) {
		err = unix.ESRCH
	}
	if err != nil {
		return fmt.Errorf("allow process %d to take descriptors: %w", pid, err)
	}
	return nil
}

// AllowNobody takes back what [Allow] has given.
func AllowNobody() error {
	if err := prctlPtracer(0); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("allow no process to take descriptors: %w", err)
	}
	return nil
}

func prctlPtracer(pid int) error {
	return unix.Prctl(unix.PR_SET_PTRACER, uintptr(pid), 0, 0, 0)
}
