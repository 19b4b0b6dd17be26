package relay

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/proxyproto"
)

const (
	// The pause before a client's next round over all servers: it doubles with
	// each round from the first to the longest.
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
)

// dial tries servers until one is connecting, connected, or none is left in this
// round. The side of the server may hold a socket that no connect has used yet.
func (l *loop) dial(p *pair) {
	for {
		e := p.service.Pool.Pick(p.peer.Addr(), &p.tried, l.now)
		if e == nil {
			l.wait(p)
			return
		}
		p.endpoint = e
		e.Opened()
		if errno := l.socketFor(p, e.Family()); errno != 0 {
			l.attemptFailed(p, errno)
			if exhausted(errno) {
				l.starve(errno)
				l.wait(p)
				return
			}
			continue
		}
		errno := connect(p.side[server].fd, e.Sockaddr())
		switch errno {
		case 0, unix.EINPROGRESS:
			// EINPROGRESS, or a Unix socket, which is connected at once. Either
			// way epoll says when it is writable.
			if errno := l.watchSide(p, server); errno != 0 {
				l.attemptFailed(p, errno)
				continue
			}
			p.phase = dialing
			l.setDeadline(p, l.now+int64(p.service.ConnectTimeout))
			return
		default:
			l.attemptFailed(p, errno)
		}
	}
}

// attemptFailed counts an attempt as failed and makes the socket fit for another.
func (l *loop) attemptFailed(p *pair, errno unix.Errno) {
	l.relay.say(event{kind: dialFailed, upstream: p.service.Pool.Name(), server: p.endpoint.String(), err: errno})
	if !ownFault(errno) {
		p.endpoint.Failed(errno, l.now)
	}
	p.endpoint.Closed()
	p.endpoint = nil
	s := &p.side[server]
	if s.tcp && s.fd >= 0 {
		disconnect(s.fd)
		*s = side{fd: s.fd, tcp: true, polled: s.polled}
		return
	}
	l.forget(s)
}

// ownFault tells the errors of connect that say nothing against the server: its
// backlog is full (EAGAIN of a Unix socket), or no local port or memory is free.
func ownFault(errno unix.Errno) bool {
	return errno == unix.EAGAIN || errno == unix.EADDRNOTAVAIL || exhausted(errno)
}

// socketFor makes sure that the server's side has a socket of the family.
func (l *loop) socketFor(p *pair, family int) unix.Errno {
	s := &p.side[server]
	if s.fd >= 0 && p.family == family {
		return 0
	}
	l.forget(s)
	fd, errno := l.spares.take(family)
	if errno != 0 {
		return errno
	}
	*s = side{fd: fd, tcp: family != unix.AF_UNIX}
	p.family = family
	return 0
}

// dialed acts on the first event of a connecting socket.
func (l *loop) dialed(p *pair, bad bool) {
	if bad {
		errno := socketError(p.side[server].fd)
		if errno == 0 {
			errno = unix.ECONNRESET
		}
		l.attemptFailed(p, errno)
		l.dial(p)
		return
	}
	if !p.side[server].writable {
		return
	}
	if p.side[server].tcp && l.relay.selfConnected(p.side[server].fd, p.endpoint.Sockaddr()) {
		l.attemptFailed(p, unix.ECONNREFUSED)
		l.dial(p)
		return
	}
	l.connected(p)
}

// connected starts the relaying.
func (l *loop) connected(p *pair) {
	p.endpoint.Succeeded()
	l.clearDeadline(p)
	p.phase = open
	p.active = l.now
	if p.service.SendProxy != 0 && !l.oweHeader(p) {
		return
	}
	serial := p.serial
	l.pump(p, client)
	if p.serial == serial && p.phase == open {
		l.pump(p, server)
	}
}

// wait lets the client wait for the next round, or gives it up when
// connect_retry is over.
func (l *loop) wait(p *pair) {
	pause := min(firstPause<<min(p.rounds, 8), longestPause)
	if l.now+int64(pause) > p.opened+int64(p.service.ConnectRetry) {
		l.relay.say(event{kind: noServer, listener: p.service.Listener, upstream: p.service.Pool.Name()})
		l.giveUp(p, NoServer)
		return
	}
	p.rounds = min(p.rounds+1, 8)
	p.tried.Reset()
	p.phase = waiting
	l.setDeadline(p, l.now+int64(pause))
}

// oweHeader puts the PROXY header for the server before anything the client sent.
func (l *loop) oweHeader(p *pair) bool {
	buf, err := l.buffers.get()
	if err != nil {
		l.relay.say(event{kind: noMemory, err: err})
		l.giveUp(p, OutOfResources)
		return false
	}
	local := p.local
	if !local.IsValid() {
		local = localAddr(p.side[client].fd)
	}
	b := proxyproto.Append(l.buffers.bytes(buf)[:0], p.service.SendProxy, p.peer, local)
	f := &p.flow[client]
	f.buf, f.off, f.end = buf, 0, uint32(len(b))
	return true
}
