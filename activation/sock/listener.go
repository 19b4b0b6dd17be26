package sock

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// Listener is a socket of this process to which clients get, listening or of UDP,
// with what is to be done when it is closed.
type Listener struct {
	FD   *FD
	Info Info // as it was when the Listener was made

	file    *socketFile // the file that Listen made for it, in this life or an earlier one; nil for all others
	retired atomic.Bool
}

// Adopt makes a Listener of a received descriptor and prepares it. On an error
// the descriptor stays the caller's; otherwise it is the Listener's. Its path,
// if it has one, belongs to whoever bound it.
func Adopt(fd *FD) (*Listener, error) {
	l, err := newListener(fd)
	if err != nil {
		return nil, err
	}
	if err := Prepare(fd.Raw()); err != nil {
		return nil, err
	}
	return l, nil
}

func newListener(fd *FD) (*Listener, error) {
	info, err := Classify(fd.Raw())
	if err != nil {
		return nil, err
	}
	l := &Listener{FD: fd, Info: info}
	l.retired.Store(info.Retired)
	return l, nil
}

// Addr is where the socket is bound.
func (l *Listener) Addr() Addr {
	return l.Info.Addr
}

// Close gives the socket up. A Unix socket's file goes with it when Listen made
// it and it still is this socket's; to leave it to the next holder, close FD. There is no shutdown(2): where systemd or
// another process holds the socket too, it goes on listening for them.
//
// Connections that wait in the queue of the last descriptor are reset by the
// kernel: accept them first.
func (l *Listener) Close() error {
	if l.FD.Raw() < 0 {
		return nil
	}
	var err error
	if l.file != nil {
		// Before close: the open socket keeps its inode, so no other file can
		// have the same number by chance.
		if err = l.file.remove(); err != nil {
			err = fmt.Errorf("remove %s: %w", l.Addr(), err)
		}
	}
	return errors.Join(err, l.FD.Close())
}
