package sock

import (
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// nowhere is the index of an interface that does not exist: the kernel counts
// from 1.
const nowhere = math.MaxInt32

// Retire takes the socket out of the way of new clients, for good. Who is in its
// queue stays there to be accepted, and so does who has begun a handshake: leave
// those a moment before Close, which resets them. New clients go to another
// socket that listens for their address, or are refused at once.
//
// That closes the gap between the last accept and close, in which a client is
// reset, and it works although the holder of a copy, a store for instance, keeps
// the socket open. All holders see it, so never retire a socket that somebody
// else is to go on with.
//
// A Unix socket loses its file, if this Listener is its owner. For an abstract
// one, or a file of somebody else's, nothing can be done: errors.ErrUnsupported.
// Needs Linux 5.7, or CAP_NET_RAW.
func (l *Listener) Retire() error {
	err := l.retire()
	if err != nil {
		return fmt.Errorf("retire %s: %w", l.Addr(), err)
	}
	l.retired.Store(true)
	return nil
}

func (l *Listener) retire() error {
	switch {
	case l.file != nil:
		return l.file.remove()
	case l.Info.Family == unix.AF_INET || l.Info.Family == unix.AF_INET6:
		// A socket that is bound to an interface hears that one only. The kernel
		// takes any index, and lets go of one only with CAP_NET_RAW.
		return unix.SetsockoptInt(l.FD.Raw(), unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, nowhere)
	}
	return errors.ErrUnsupported
}

// Reachable tells whether new clients can get to the socket: it was not retired,
// and the path of a Unix socket leads to it still. Where it is not known which
// file the socket had, any socket at the path counts.
func (l *Listener) Reachable() bool {
	switch {
	case l.retired.Load():
		return false
	case !l.Info.Addr.HasFile():
		return true
	case l.file == nil:
		var st unix.Stat_t
		return unix.Lstat(l.Info.Addr.Path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK
	}
	there, err := l.file.there()
	return there || err != nil // a path that may not be looked at may well lead here
}
