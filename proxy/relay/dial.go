package relay

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// The pause before a client's next round over all servers: it doubles with
	// each round from the first to the longest.
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
)

// startDialing begins the time that the client may wait for a server.
func (l *loop) startDialing(p *pair) {
	p.dialed = l.now
	l.dial(p)
}

// dial tries servers until one is connecting, connected, or none is left in this
// round. The side of the server may hold a socket that no connect has used yet.
func (l *loop) dial(p *pair) {
	for {
		e := p.use.service.Pool.Pick(p.peer.Addr(), &p.tried, l.now)
		if e == nil {
			l.wait(p)
			return
		}
		p.endpoint = e
		e.Opened()
		if errno := l.socketFor(p, e.Family()); errno != 0 {
			l.attemptFailed(p, errno)
			if exhausted(errno) {
				l.pauseAll(errno)
				l.wait(p)
				return
			}
			continue
		}
		s := &p.side[server]
		// A reused socket has been told of as hung up since its last attempt.
		*s = side{fd: s.fd, tcp: s.tcp, registered: s.registered}
		errno := connect(s.fd, e.Sockaddr())
		switch errno {
		case 0, unix.EINPROGRESS:
			// 0 is a Unix socket, which is connected at once. Either way epoll
			// says when it is writable.
			p.phase = dialing
			if errno := l.registerSide(p, server); errno != 0 {
				l.attemptFailed(p, errno)
				continue
			}
			l.setDeadline(p, l.now+int64(p.use.service.ConnectTimeout))
			return
		default:
			l.attemptFailed(p, errno)
		}
	}
}

// attemptFailed counts an attempt as failed and makes the socket fit for another.
func (l *loop) attemptFailed(p *pair, errno unix.Errno) {
	l.relay.note(event{kind: dialFailed, upstream: p.use.service.Pool.Name(), server: p.endpoint.String(), err: errno})
	p.lastErr = errno
	if !notTheServersFault(errno) {
		p.endpoint.Failed(errno, l.now)
	}
	p.endpoint.Closed()
	p.endpoint = nil
	s := &p.side[server]
	switch {
	case s.fd < 0:
	case s.tcp:
		disconnect(s.fd)
	case p.phase == dialing: // it was connected, and cannot be again
		shutdown(s.fd, unix.SHUT_RDWR)
		p.family = unix.AF_UNSPEC
	}
}

// reason is why no server was reached: the last error, or that none has an address.
func reason(last unix.Errno) error {
	if last == 0 {
		return errNoAddress
	}
	return last
}

var errNoAddress = errors.New("no server has an address")

// notTheServersFault tells the errors of connect that say nothing against the
// server: its backlog is full (EAGAIN of a Unix socket), or no descriptor or memory
// is free.
func notTheServersFault(errno unix.Errno) bool {
	return errno == unix.EAGAIN || exhausted(errno)
}

// socketFor makes sure that the server's side has a socket of the family.
func (l *loop) socketFor(p *pair, family int) unix.Errno {
	s := &p.side[server]
	if s.fd >= 0 && p.family == family {
		return 0
	}
	fd, errno := l.spares.take(family)
	if errno != 0 {
		return errno
	}
	former := *s
	*s = side{fd: fd, tcp: family != unix.AF_UNIX}
	p.family = family
	l.rekeep(p)
	l.closeSide(&former)
	return 0
}

// onConnect acts on the first event of a connecting socket.
func (l *loop) onConnect(p *pair, bad bool) {
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
	if p.use.service.SendProxy != 0 && !l.oweHeader(p) {
		return
	}
	l.keepOpen(p)
	l.pumpBoth(p)
}

// wait lets the client wait for the next round, or gives it up when
// connect_retry is over.
func (l *loop) wait(p *pair) {
	pause := min(firstPause<<min(p.rounds, 8), longestPause)
	if l.now+int64(pause) > p.dialed+int64(p.use.service.ConnectRetry) {
		l.relay.note(event{kind: noServer, listener: p.use.service.Listener, upstream: p.use.service.Pool.Name(), err: reason(p.lastErr)})
		l.giveUp(p, NoServer)
		return
	}
	p.rounds = min(p.rounds+1, 8)
	p.tried.Reset()
	p.phase = waiting
	l.setDeadline(p, l.now+int64(pause))
}
