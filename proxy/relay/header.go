package relay

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/proxyproto"
)

// headerTimeout is how long a trusted client may take over its PROXY header.
const headerTimeout = 10 * time.Second

// headerPeek is how much is looked at for a header: more than the largest one.
const headerPeek = proxyproto.MaxLen + 1

// expectsHeader tells whether the client must begin with a PROXY header.
func (l *loop) expectsHeader(p *pair) bool {
	return len(p.service.Trusted) > 0 && proxyproto.Trusted(p.service.Trusted, p.peer.Addr())
}

func (l *loop) awaitHeader(p *pair) {
	p.phase = header
	l.setDeadline(p, l.now+int64(headerTimeout))
}

// readHeader looks at what the client sent so far. It takes nothing from the
// socket until the header is whole, and then exactly the header.
func (l *loop) readHeader(p *pair) {
	s := &p.side[client]
	n, errno := recv(s.fd, l.scratch, unix.MSG_PEEK)
	switch {
	case errno == unix.EAGAIN:
		return
	case errno != 0:
		s.broken = true // the peek has eaten the error
		l.reset(p, ClientLeft)
		return
	case n == 0:
		l.giveUp(p, BadHeader)
		return
	}
	h, size, err := proxyproto.Parse(l.scratch[:n])
	if errors.Is(err, proxyproto.ErrMore) && !s.hangup {
		return
	}
	if err != nil {
		l.relay.say(event{kind: badHeader, listener: p.service.Listener, client: p.peer, err: err})
		l.giveUp(p, BadHeader)
		return
	}
	if _, errno := recv(s.fd, l.scratch[:size], 0); errno != 0 {
		s.broken = true
		l.reset(p, ClientLeft)
		return
	}
	if !h.Local {
		p.peer, p.local = h.Source, h.Destination
	}
	l.clearDeadline(p)
	l.dial(p)
}
