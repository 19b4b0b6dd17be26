package sock

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Credentials say who connected: the process that called connect(2), or
// listen(2) when asked on the client's side, as it was at that moment.
type Credentials struct {
	PID int // 0 when the process is not in our PID name space
	UID uint32
	GID uint32
}

// PeerCredentials are those of the other end of a connected Unix socket
// (SO_PEERCRED, unix(7)). The kernel vouches for them.
func PeerCredentials(fd int) (Credentials, error) {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Credentials{}, fmt.Errorf("peer credentials of descriptor %d: %w", fd, err)
	}
	return Credentials{PID: int(c.Pid), UID: c.Uid, GID: c.Gid}, nil
}
