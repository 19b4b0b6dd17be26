package sock

import "golang.org/x/sys/unix"

// heldError is EADDRINUSE of a path, and says who has it.
type heldError struct {
	by string
}

func (e *heldError) Error() string { return "in use by " + e.by }

func (e *heldError) Unwrap() error { return unix.EADDRINUSE }

// holder names the process that called listen(2) at the other end of a connected
// Unix socket.
func holder(fd *FD) string {
	p, err := PeerOf(fd.Raw())
	if err != nil {
		return "another process"
	}
	return p.String()
}
