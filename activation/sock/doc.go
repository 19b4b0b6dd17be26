// Package sock holds what the ways to obtain a socket have in common: a
// descriptor with an owner, the identity of a listening socket, a look at what
// a received descriptor really is, descriptors beside a message and who has sent
// it, and listening itself.
//
// It owns the sockets that [Listen] made and the paths that it bound. It never
// shuts a socket down: the same socket may be held by systemd or by another
// process, and shutdown(2) would end it for them too. It never calls
// (*os.File).Fd, which makes a shared socket blocking for everybody.
//
//	l, err := sock.Listen(sock.TCP(netip.MustParseAddrPort("127.0.0.1:8080")), sock.Options{})
//	if err != nil {
//		return err
//	}
//	defer l.Close()
//	unix.Accept4(l.FD.Raw(), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
//
// The package is Linux only and depends on nothing but x/sys/unix.
package sock
