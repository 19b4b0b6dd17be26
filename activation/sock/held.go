package sock

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// heldError is EADDRINUSE of a path, and says who has it.
type heldError struct {
	by string
}

func (e *heldError) Error() string { return "in use by " + e.by }

func (e *heldError) Unwrap() error { return unix.EADDRINUSE }

// holder names the process that called listen(2) at the other end of a connected
// Unix socket (SO_PEERCRED, unix(7)), as far as /proc tells.
func holder(fd *FD) string {
	cred, err := unix.GetsockoptUcred(fd.Raw(), unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || cred.Pid == 0 { // 0 = of another PID name space
		return "another process"
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", cred.Pid))
	if err != nil {
		return fmt.Sprintf("process %d", cred.Pid)
	}
	return fmt.Sprintf("process %d (%s)", cred.Pid, strings.TrimSpace(string(comm)))
}
