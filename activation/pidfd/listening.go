package pidfd

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// Found is one socket of a process to which clients get.
type Found struct {
	FD     *sock.FD // the caller's
	Number int      // of the descriptor there; of several the lowest one

	// Info is as Classify gives it, but for the path of a Unix socket whose file was
	// renamed, as HAProxy does after bind(2): it is where clients find the socket now.
	// That needs CAP_NET_ADMIN.
	Info sock.Info

	// Blocking says that the socket has no O_NONBLOCK, so that the other process may
	// wait in accept(2). To set it, as [sock.Adopt] does, changes that process.
	Blocking bool
}

// ListeningSockets takes all sockets of the process to which clients get: those that
// listen, and those of UDP that are bound and not connected. UDP sockets with which
// a program only asks others, a resolver's for example, look the same. Retired ones
// are among them: there may be clients in their queues. Each socket comes once,
// however many descriptors lead to it, in the order of their numbers.
//
// Descriptors may come and go meanwhile. A socket that is open all the time under the
// same number is found.
//
// When the process ends meanwhile the error is ErrExited, and what was taken before
// is given beside it: the clients in those queues have nobody else by then. With any
// other error, a [*RightsError] for one, nothing is taken. To look through 20,000
// connections takes a tenth of a second, and some descriptors here.
func (p *Process) ListeningSockets(ctx context.Context) ([]Found, error) {
	w := walk{process: p, seen: map[uint64]bool{}}
	err := w.run(ctx)
	if _, refused := errors.AsType[*RightsError](err); err != nil && !refused {
		err = fmt.Errorf("find the sockets of %s: %w", p, err)
	}
	if err != nil && !errors.Is(err, ErrExited) {
		w.drop()
	}
	return w.found, err
}
