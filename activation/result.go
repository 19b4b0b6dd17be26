package activation

import (
	"errors"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// Result is what an Acquire gives: sockets that serve, and what nobody wanted. Its
// owner closes all of it but the sockets that were held before.
type Result struct {
	Listeners  []Listener  // one for each want, in the order of the wants
	Idle       []Socket    // held sockets that no want gets, still open and the caller's: drain them, or hold on to them
	Unwanted   []Unwanted  // descriptors that arrived and are of no use, still open
	Duplicates []Duplicate // second descriptors of a socket, closed already

	held map[*sock.Listener]bool
}

// Listener is a want with its sockets: at least one. Held ones come first, then
// inherited ones in the order of arrival, then those bound here, in the order of
// the addresses.
type Listener struct {
	Name    string
	Sockets []Socket
}

// Socket is one kernel socket to which clients get, a listening one or one of UDP;
// Info.Type tells. Its Close knows whether a path is to be removed.
type Socket struct {
	*sock.Listener
	Origin Origin
	Name   string // under which it arrived, "" = without a name
}

// Unwanted is a descriptor that arrived and serves no listener. Nothing was done
// to it beside setting close-on-exec, and O_NONBLOCK on sockets.
type Unwanted struct {
	Name   string // as it arrived, "" = without a name
	Origin Origin
	FD     *sock.FD
	Info   sock.Info // zero when it is not a socket
	Reason string    // for the log: "not a socket but a pipe"

	listener *sock.Listener // nil when nobody can be in its queue
}

// Socket is the descriptor as a socket that may have clients in its queue: drain it
// before closing it. ok is false when there can be none. FD stays the same.
func (u Unwanted) Socket() (s Socket, ok bool) {
	return Socket{Listener: u.listener, Origin: u.Origin, Name: u.Name}, u.listener != nil
}

// Duplicate is one more descriptor of a socket that is in the Result already.
// It was closed, as draining it would take the clients of the first.
type Duplicate struct {
	Name   string
	Origin Origin
	Addr   sock.Addr
}

func (a *assignment) result(listeners []Listener) *Result {
	r := &Result{Listeners: listeners, held: make(map[*sock.Listener]bool)}
	for _, c := range a.candidates {
		switch {
		case c.held:
			r.held[c.socket.Listener] = true
			if c.want == nobody {
				r.Idle = append(r.Idle, c.socket)
			}
		case c.copy:
			_ = c.fd.Close() // the socket lives on in the other descriptor
			r.Duplicates = append(r.Duplicates, Duplicate{Name: c.socket.Name, Origin: c.socket.Origin, Addr: c.socket.Addr()})
		case c.want == nobody:
			r.Unwanted = append(r.Unwanted, a.unwanted(c))
		}
	}
	return r
}

func (a *assignment) unwanted(c *candidate) Unwanted {
	u := Unwanted{Name: c.socket.Name, Origin: c.socket.Origin, FD: c.fd, Reason: a.whyUnclaimed(c)}
	if c.socket.Listener != nil {
		u.Info = c.socket.Info
	}
	if c.drainable() {
		u.listener = c.socket.Listener
	}
	return u
}

// Bound tells whether a socket was bound by this Acquire.
func (r *Result) Bound(s Socket) bool { return s.Origin == Bind && !r.held[s.Listener] }

// Retire lets no further client get to what was bound, for a caller that is about to
// Close. It is done as far as the kernel can.
func (r *Result) Retire() {
	for _, l := range r.Listeners {
		for _, s := range l.Sockets {
			if r.Bound(s) {
				_ = s.Retire() // clients may get there until Close, as without it
			}
		}
	}
}

// Close takes the Acquire back, for a caller that cannot go on with the Result.
// Held sockets are left as they are. What came from a source is closed here and
// lives on where it came from, its path too. What was bound is gone. To give a
// socket up for good, close it itself.
func (r *Result) Close() error {
	err := closeAll(&r.Unwanted, func(u Unwanted) error { return u.FD.Close() })
	for i := range r.Listeners {
		err = errors.Join(err, closeAll(&r.Listeners[i].Sockets, r.takeBack))
	}
	return err
}

func (r *Result) takeBack(s Socket) error {
	switch {
	case r.held[s.Listener]:
		return nil
	case r.Bound(s):
		return s.Close()
	}
	return s.FD.Close()
}

// closeAll closes and forgets what a slice holds.
func closeAll[T any](owned *[]T, closeOne func(T) error) error {
	var errs []error
	for _, o := range *owned {
		errs = append(errs, closeOne(o))
	}
	*owned = nil
	return errors.Join(errs...)
}
