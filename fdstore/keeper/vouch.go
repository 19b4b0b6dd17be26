package keeper

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
)

// isVouchedFor tells whether the main process speaks of a process of its user that was
// started to speak with this keeper, or one before it. A keeper that has taken the main one
// on is no relative of those that were started as children of the one before.
func (k *keeper) isVouchedFor(pid, sender int) bool {
	return k.main != nil && sender == k.main.pid && sameUser(pid, sender) && notifies(pid, k.place.notify)
}

// sameUser tells whether two processes have the same users: real, effective, saved and of
// files. It is false for processes that nobody knows any more.
func sameUser(a, b int) bool {
	userOfA, err := userOf(a)
	if err != nil {
		return false
	}
	userOfB, err := userOf(b)
	return err == nil && userOfA == userOfB
}

// userOf is what /proc/PID/status says, proc_pid_status(5): four numbers.
func userOf(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if user, ok := strings.CutPrefix(line, "Uid:"); ok {
			return user, nil
		}
	}
	return "", errors.New("not the status of a process")
}

// notifies tells whether a process was started with an address as its NOTIFY_SOCKET. It is
// false where that is not to be read, as of a process with file capabilities.
func notifies(pid int, address string) bool {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return false
	}
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		if string(variable) == "NOTIFY_SOCKET="+address {
			return true
		}
	}
	return false
}
