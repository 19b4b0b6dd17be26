package handover

import "errors"

// Why a request cannot be made now. The original answers with them, and the
// replacement does not even ask.
var (
	errNoHello      = errors.New("the first request has to be Hello")
	errSaidAlready  = errors.New("it was asked already")
	errSocketsFirst = errors.New("the listening sockets come first")
	errDrainFirst   = errors.New("draining comes first")
	errMoreFirst    = errors.New("there is more of the connections to come")
	errOver         = errors.New("the session is over")
)

// ErrNotSupported means that the original does not know a request, or does not offer
// what it is for.
var ErrNotSupported = errors.New("not supported")

// state is how far a session is, on both sides.
//
//	fresh ──Hello──► greeted ──SendListeningSockets──► sent ──BeginDrainingConnections──► draining
//	                    │                               ▲                                    │
//	                    └─more─► sending ⟲ more ────────┘                                    │
//	                                                      handed ◄──────────SendConnections──┤
//	                                                       │ ▲                               │
//	                                                       │ └─────handing ⟲ more ◄──more────┘
//	                                                       ▼
//	                              over ◄──ShutdownOriginalNode, from draining too
//
// Abort leads from each but fresh to over, and so does a connection that ends. A
// request that is answered with Error leaves the state as it was.
//
// The original accepts up to draining. There only the replacement does, and has to
// prove itself: if the session ends otherwise than by ShutdownOriginalNode, the
// original accepts again.
type state int

const (
	fresh state = iota
	greeted
	sending // the last answer had "more"
	sent
	draining // the original accepts no more, and still can
	handing  // the last answer had "more"
	handed   // the replacement has what it needs to go on with connections
	over
)

// allows says why a request is out of order; nil when it is not.
func (s state) allows(request string) error {
	switch {
	case s == over:
		return errOver
	case s == fresh && request != hello:
		return errNoHello
	}
	switch request {
	case hello:
		if s != fresh {
			return errSaidAlready
		}
	case sendListeningSockets:
		if s > sending {
			return errSaidAlready
		}
	case beginDrainingConnections, shutdownOriginalNode:
		switch {
		case s < sent:
			return errSocketsFirst
		case s == sent && request == shutdownOriginalNode:
			return errDrainFirst
		case s >= draining && request == beginDrainingConnections:
			return errSaidAlready
		case s == handing:
			return errMoreFirst
		}
	case sendConnections:
		switch {
		case s < draining:
			return errDrainFirst
		case s == handed:
			return errSaidAlready
		}
	case abort:
	default:
		return ErrNotSupported
	}
	return nil
}

// after is the state when a request that it allows was answered.
func (s state) after(request string, answer message) state {
	switch request {
	case hello:
		return greeted
	case sendListeningSockets:
		if answer.More {
			return sending
		}
		return sent
	case beginDrainingConnections:
		return draining
	case sendConnections:
		if answer.More {
			return handing
		}
		return handed
	case shutdownOriginalNode, abort:
		return over
	}
	return s
}
