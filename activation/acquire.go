package activation

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// Want is one listener to be served.
type Want struct {
	Name     string
	Addrs    []sock.Addr // where it listens; empty = only on sockets that arrive for it
	TakesAny bool        // it also takes listening stream sockets of units that no other want claims
}

// Acquire finds the sockets of each want among those that this process holds
// already, then in the sources, the first one first, and binds what none of them
// has. The package documentation says what goes where.
//
// The error is an [AcquireError] with the problems of all wants. What was bound
// is closed again by then and the sources still own their descriptors. After a
// success the Result owns everything but the held sockets, and the sources are
// empty.
//
// Held sockets stay the caller's, whatever happens, and are the same in the Result,
// pointer and origin. None of them may be closed or retired meanwhile. While an
// address is bound that overlaps with one which no want keeps, the latter has
// SO_REUSEPORT for two system calls. So it is with leaving: sockets that the caller is
// about to close and no want gets; they must be open until Acquire returns.
func Acquire(wants []Want, held []Socket, sources []*Source, leaving ...*sock.Listener) (*Result, error) {
	q := newAcquisition(wants, held, sources, leaving)
	if len(q.problems) == 0 {
		return q.result(sources), nil
	}
	// The last one first: to remove a socket's file takes a descriptor, which
	// was free when that socket was bound.
	for _, s := range slices.Backward(q.bound) {
		_ = s.Retire() // who comes now is refused, and not reset
		_ = s.Close()  // nothing was accepted on it, and the problems say more
	}
	return nil, q.problems
}

// AcquireRest is [Acquire] without what cannot be had, which missing tells. Listeners
// without a socket are not in the Result.
func AcquireRest(wants []Want, held []Socket, sources []*Source, leaving ...*sock.Listener) (r *Result, missing AcquireError) {
	q := newAcquisition(wants, held, sources, leaving)
	q.listeners = slices.DeleteFunc(q.listeners, func(l Listener) bool { return len(l.Sockets) == 0 })
	return q.result(sources), q.problems
}

// acquisition is an Acquire when everything was tried.
type acquisition struct {
	*assignment
	listeners []Listener // one for each want
	bound     []Socket
	problems  AcquireError
}

func newAcquisition(wants []Want, held []Socket, sources []*Source, leaving []*sock.Listener) *acquisition {
	q := &acquisition{assignment: assign(wants, gather(held, sources)), listeners: make([]Listener, len(wants))}
	near := q.neighbours()
	near.leave(leaving...)
	for i, sockets := range q.claimed() {
		w := wants[i]
		served := make(map[sock.Addr]bool)
		for _, s := range sockets {
			addServed(served, s)
		}
		for _, addr := range w.Addrs {
			if served[addr] {
				continue
			}
			l, err := sock.Listen(addr, sock.Options{Beside: near.replaceable(addr)})
			if err != nil {
				q.problems = append(q.problems, near.bindError(w.Name, addr, err))
				continue
			}
			s := Socket{Listener: l, Origin: Bind}
			q.bound = append(q.bound, s)
			sockets = append(sockets, s)
			addServed(served, s)
			near.stays(w.Name, l.Info)
		}
		if len(w.Addrs) == 0 && len(sockets) == 0 {
			q.problems = append(q.problems, q.noSocket(w))
		}
		q.listeners[i] = Listener{Name: w.Name, Sockets: sockets}
	}
	return q
}

// result empties the sources.
func (q *acquisition) result(sources []*Source) *Result {
	for _, s := range sources {
		s.Offers = nil
	}
	return q.assignment.result(q.listeners)
}

func addServed(served map[sock.Addr]bool, s Socket) {
	for _, a := range s.Info.ServedAddrs() {
		served[a] = true
	}
}

// bindError drops the address that the bind error names: the ListenerError
// names it beside the listener.
func (n *neighbours) bindError(listener string, addr sock.Addr, err error) *ListenerError {
	e := &ListenerError{Listener: listener, Addr: addr, Err: err, hint: sock.Hint(err)}
	var le *sock.ListenError
	if errors.As(err, &le) {
		e.Err = le.Err
	}
	if other := n.inTheWay(addr); other != nil && errors.Is(err, unix.EADDRINUSE) {
		e.hint = other.hint() // there is no other program to look for
	}
	return e
}

// noSocket names what did arrive, as the mistake mostly is in a name.
func (a *assignment) noSocket(w Want) *ListenerError {
	missing, hint := "named "+w.Name, "set FileDescriptorName="+w.Name+" in the socket unit; what arrived: "
	if w.TakesAny {
		missing, hint = "that listens", "what arrived: "
	}
	const most = 16
	var arrived []string
	for _, c := range a.candidates {
		if c.socket.Origin.own() {
			continue
		}
		if len(arrived) == most {
			arrived = append(arrived, "…")
			break
		}
		arrived = append(arrived, c.String())
	}
	hint += strings.Join(arrived, ", ")
	if len(arrived) == 0 {
		hint = "no descriptor arrived: start the socket unit, or give the listener an address"
	}
	return &ListenerError{Listener: w.Name, Err: fmt.Errorf("%w %s", ErrNoSocket, missing), hint: hint}
}
