package activation

import (
	"errors"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// Result is what an Acquire gives. Its owner closes all of it: sockets that
// serve, and descriptors that nobody wanted.
type Result struct {
	Listeners  []Listener  // one for each want, in the order of the wants
	Unwanted   []Unwanted  // descriptors that arrived and are of no use, still open
	Duplicates []Duplicate // second descriptors of a socket, closed already
}

// Listener is a want with its sockets: at least one. Inherited ones come first,
// in the order of arrival, then those bound here, in the order of the addresses.
type Listener struct {
	Name    string
	Sockets []Socket
}

// Socket is one kernel listening socket. Its Close knows whether a path is to
// be removed.
type Socket struct {
	*sock.Listener
	Origin Origin
}

// Unwanted is a descriptor that arrived and serves no listener. Nothing was
// done to it beside setting close-on-exec, and O_NONBLOCK on sockets. A
// listening one may have clients in its queue: drain it before closing it.
type Unwanted struct {
	Name   string // as it arrived, "" = without a name
	Origin Origin
	FD     *sock.FD
	Info   sock.Info // zero when it is not a socket
	Reason string    // for the log: "not a socket but a pipe"
}

// Duplicate is one more descriptor of a socket that is in the Result already.
// It was closed, as draining it would take the clients of the first.
type Duplicate struct {
	Name   string
	Origin Origin
	Addr   sock.Addr
}

// Close closes everything in the Result.
func (r *Result) Close() error {
	err := closeAll(&r.Unwanted, func(u Unwanted) error { return u.FD.Close() })
	for i := range r.Listeners {
		err = errors.Join(err, closeAll(&r.Listeners[i].Sockets, func(s Socket) error { return s.Close() }))
	}
	return err
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
