package control

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// peer says which process called connect(2) at the other end of conn, see
// SO_PEERCRED in unix(7). It fails for what is no Unix socket.
func peer(conn net.Conn) (*unix.Ucred, error) {
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("a connection of network %s has no peer credentials", conn.LocalAddr().Network())
	}
	raw, err := unixConn.SyscallConn()
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
