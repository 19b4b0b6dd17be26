package activation

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// Want is one listener to be served.
type Want struct {
	Name     string
	Addrs    []sock.Addr // where it listens; empty = only on sockets that arrive for it
	TakesAny bool        // it also takes listening stream sockets that no other want claims
}

// Acquire finds the sockets of each want in the sources, the first one first,
// and binds what none of them has. The package documentation says what goes
// where.
//
// The error is an [AcquireError] with the problems of all wants. What was bound
// is closed again by then and the sources still own their descriptors. After a
// success the Result owns everything and the sources are empty.
func Acquire(wants []Want, sources []*Source) (*Result, error) {
	a := newAssignment(wants, sources)
	a.byName()
	a.byAddress()
	a.leftovers()

	listeners := make([]Listener, len(wants))
	var problems AcquireError
	var bound []Socket
	for i, w := range wants {
		listeners[i] = Listener{Name: w.Name, Sockets: a.socketsOf(i)}
		for _, addr := range w.Addrs {
			if serves(listeners[i].Sockets, addr) {
				continue
			}
			l, err := sock.Listen(addr, sock.Options{})
			if err != nil {
				problems = append(problems, bindError(w.Name, addr, err))
				continue
			}
			s := Socket{Listener: l, Origin: Bind}
			bound = append(bound, s)
			listeners[i].Sockets = append(listeners[i].Sockets, s)
		}
		if len(w.Addrs) == 0 && len(listeners[i].Sockets) == 0 {
			problems = append(problems, a.noSocket(w))
		}
	}
	if len(problems) > 0 {
		explainOwnConflicts(problems, listeners)
		// The last one first: to remove a socket's file takes a descriptor, which
		// was free when that socket was bound.
		for _, s := range slices.Backward(bound) {
			_ = s.Close() // nothing was accepted on it, and the problems say more
		}
		return nil, problems
	}

	r := &Result{Listeners: listeners, Unwanted: a.unwanted(), Duplicates: a.closeDuplicates()}
	for _, s := range sources {
		s.Offers = nil
	}
	return r, nil
}

func serves(sockets []Socket, addr sock.Addr) bool {
	for _, s := range sockets {
		if s.Info.Serves(addr) {
			return true
		}
	}
	return false
}

// bindError drops the address that the bind error names: the ListenerError
// names it beside the listener.
func bindError(listener string, addr sock.Addr, err error) *ListenerError {
	e := &ListenerError{Listener: listener, Addr: addr, Err: err, hint: sock.Hint(err)}
	var le *sock.ListenError
	if errors.As(err, &le) {
		e.Err = le.Err
	}
	return e
}

// noSocket names what did arrive, as the mistake mostly is in a name.
func (a *assignment) noSocket(w Want) *ListenerError {
	missing, hint := "named "+w.Name, "set FileDescriptorName="+w.Name+" in the socket unit; what arrived: "
	if w.TakesAny {
		missing, hint = "that listens", "what arrived: "
	}
	var arrived []string
	for _, c := range a.candidates {
		arrived = append(arrived, c.String())
	}
	hint += strings.Join(arrived, ", ")
	if len(arrived) == 0 {
		hint = "no descriptor arrived: start the socket unit, or give the listener an address"
	}
	return &ListenerError{Listener: w.Name, Err: fmt.Errorf("%w %s", ErrNoSocket, missing), hint: hint}
}
