package pidfd

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// errMainThread means that only the main thread has ended. The others have the
// descriptors, but a pidfd gives those of the main thread.
var errMainThread = errors.New("its main thread has ended, and its descriptors cannot be reached")

// Get takes a descriptor by its number there. What comes is the same open file and
// not a copy of it: its flags (F_SETFL) and its position are shared. It is closed on
// exec here, whatever it is there. Needs Linux 5.6.
//
// The error is a [*RightsError] when the kernel does not allow it, wraps EBADF when
// nothing is open under that number, and ErrExited when the process has ended.
func (p *Process) Get(number int) (*sock.FD, error) {
	fd, err := p.get(number)
	if _, refused := errors.AsType[*RightsError](err); refused {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("take descriptor %d of %s: %w", number, p, err)
	}
	return fd, nil
}

func (p *Process) get(number int) (*sock.FD, error) {
	raw, err := unix.PidfdGetfd(p.fd.Raw(), number, 0)
	switch {
	case err == nil:
		return sock.NewFD(raw), nil
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS):
		return nil, p.rightsError(err)
	case errors.Is(err, unix.ESRCH):
		return nil, p.orExited(errMainThread)
	}
	return nil, p.orExited(err)
}

// noDescriptor is a number that nobody has.
const noDescriptor = -1

// allowed is nil if descriptors of the process may be taken. The kernel looks at the
// rights before it looks at the number.
func (p *Process) allowed() error {
	_, err := p.get(noDescriptor)
	if errors.Is(err, unix.EBADF) {
		return nil
	}
	return err
}
