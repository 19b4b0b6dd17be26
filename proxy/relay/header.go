package relay

import (
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/proxyproto"
)

// headerTimeout is how long a trusted client may take over its PROXY header.
const headerTimeout = 10 * time.Second

var errHeaderTimeout = errors.New("not whole in time")

// expectsHeader tells whether a client must begin with a PROXY header.
func (s *Service) expectsHeader(client netip.Addr) bool {
	return len(s.Trusted) > 0 && proxyproto.Trusted(s.Trusted, client)
}

func (l *loop) awaitHeader(p *pair) {
	p.phase = header
	l.setDeadline(p, l.now+int64(l.relay.headerTimeout))
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
		// A load balancer that looks whether somebody listens sends nothing.
		p.noteState(slotEnded)
		shutdown(s.fd, unix.SHUT_RDWR)
		l.end(p, ClientLeft)
		return
	}
	h, size, err := proxyproto.Parse(l.scratch[:n])
	if errors.Is(err, proxyproto.ErrMore) && !s.hangup {
		return
	}
	if err != nil {
		l.refuseHeader(p, err)
		return
	}
	if !h.Local {
		p.peer, p.local = h.Source, h.Destination
	}
	p.noteHeader(size) // first: the next process takes what is left of it
	if _, errno := recv(s.fd, l.scratch[:size], 0); errno != 0 {
		s.broken = true
		l.reset(p, ClientLeft)
		return
	}
	l.clearDeadline(p)
	l.startDialing(p)
}

func (l *loop) refuseHeader(p *pair, err error) {
	l.relay.note(event{kind: badHeader, listener: p.use.service.Listener, client: p.peer, err: err})
	l.giveUp(p, BadHeader)
}

// oweHeader puts the PROXY header for the server before anything the client sent.
func (l *loop) oweHeader(p *pair) bool {
	local := p.local
	if !local.IsValid() {
		local = localAddr(p.side[client].fd)
	}
	f := &p.flow[client]
	text := proxyproto.Append(l.scratch[:0], p.use.service.SendProxy, p.peer, local)
	p.headerOut = int64(len(text))
	if p.needsPipe(client) {
		l.takePipe(p, f)
	}
	if f.pipe.fd >= 0 && l.fill(p, f, text) {
		return true
	}
	if !l.takeBuffer(p, client) {
		l.giveUp(p, OutOfResources)
		return false
	}
	f.end = uint32(copy(l.memoryOf(p).buffers.bytes(f.buf), text))
	return true
}
