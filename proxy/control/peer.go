package control

import (
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// peer says who made the other end of conn: for a client the process that
// called listen(2), for a server the one that called connect(2). See
// SO_PEERCRED in unix(7).
func peer(conn *net.UnixConn) (*unix.Ucred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var (
		cred    *unix.Ucred
		credErr error
	)
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	return cred, errors.Join(err, credErr)
}

// allowed says whether a process of this user may give orders: our own
// effective user and root. The mode of the socket file says the same; this
// holds also after somebody has changed it, and for a directory shared with a
// container.
func allowed(uid uint32) bool {
	return uid == 0 || int(uid) == os.Geteuid()
}
