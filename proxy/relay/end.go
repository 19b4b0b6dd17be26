package relay

import (
	"time"

	"golang.org/x/sys/unix"
)

// flushPatience is how long a pair that is to be reset may go without progress
// in delivering what its broken side had sent before.
const flushPatience = 30 * time.Second

// Reason says how a connection ended.
type Reason string

// The reasons for which connections end.
const (
	Closed         Reason = "closed"           // both peers ended their stream
	ClientReset    Reason = "client reset"     // passed on to the server
	ServerReset    Reason = "server reset"     // passed on to the client
	Idle           Reason = "idle timeout"     // no byte either way for the listener's idle_timeout
	Stopped        Reason = "stopped"          // still there when the relay was closed
	NoServer       Reason = "no server"        // none could be reached in time
	BadHeader      Reason = "bad PROXY header" // or none in time
	ClientLeft     Reason = "client left"      // before a server was reached
	OutOfResources Reason = "out of resources" // no memory or descriptor for it
)

// settle acts on a flow that takes no more from its source and owes nothing.
func (l *loop) settle(p *pair, from int) {
	f := &p.flow[from]
	if f.state == ending {
		// A half-close: the other direction goes on for as long as it likes.
		shutdown(p.side[1-from].fd, unix.SHUT_WR)
		f.state = done
		l.rest(f)
	}
	switch {
	case p.side[client].broken || p.side[server].broken:
		l.endBroken(p)
	case p.flow[client].state == done && p.flow[server].state == done:
		l.end(p, Closed)
	}
}

// broke notes that one side of an open pair was reset. Nothing can be sent to it
// any more; what it had sent before is still delivered, then the other side is
// reset too.
func (l *loop) broke(p *pair, at int) {
	toward, of := &p.flow[1-at], &p.flow[at]
	p.side[at].broken = true
	l.drop(toward)
	toward.state = dead
	l.setDeadline(p, l.now+int64(flushPatience))
	if of.state == flowing || of.owes() {
		p.side[at].readable = true
		l.pump(p, at) // reads to the error, then settles
		return
	}
	l.endBroken(p)
}

// endBroken resets the pair once nothing is owed by a broken side.
func (l *loop) endBroken(p *pair) {
	at, reason := client, ClientReset
	if !p.side[client].broken {
		at, reason = server, ServerReset
	}
	other := 1 - at
	if f := &p.flow[at]; !p.side[other].broken && (f.state == flowing || f.owes()) {
		return
	}
	if s := &p.side[other]; s.tcp && !s.broken && unsent(s.fd) > 0 {
		// A reset drops what is still in the send queue, so it waits for that.
		p.phase = flushing
		l.setDeadline(p, l.now+int64(flushPatience))
		return
	}
	l.reset(p, reason)
}

// flush looks after a pair with a broken side that is not gone yet: it is reset
// when the last bytes have arrived, or when none have for flushPatience.
func (l *loop) flush(p *pair) {
	at, reason := client, ServerReset
	if p.side[client].broken {
		at, reason = server, ClientReset
	}
	arrived := p.phase == flushing && unsent(p.side[at].fd) == 0
	if arrived || l.now >= p.active+int64(flushPatience) && l.now >= p.deadline {
		l.reset(p, reason)
	}
}

// reset ends both sides of a pair as reset. A Unix socket has no reset: its peer
// sees the end of the stream, or a reset if it had sent what nobody read.
func (l *loop) reset(p *pair, reason Reason) {
	for i := range p.side {
		if s := &p.side[i]; s.tcp && s.fd >= 0 && !s.broken {
			disconnect(s.fd)
		}
	}
	l.counters.resets.Add(1)
	l.end(p, reason)
}

// hangUp ends a pair whose peers have not: in order where nothing is under way,
// as reset where the end would look like that of a whole stream and is not.
func (l *loop) hangUp(p *pair, reason Reason) {
	for i := range p.side {
		if p.flow[i].owes() || p.side[i].fd >= 0 && unread(p.side[i].fd) > 0 {
			l.reset(p, reason)
			return
		}
	}
	for i := range p.side {
		if s := &p.side[i]; s.fd >= 0 {
			shutdown(s.fd, unix.SHUT_RDWR)
		}
	}
	l.end(p, reason)
}

// giveUp ends a pair that never got a server. The client sees a reset: the end of
// an empty stream would look like an answer.
func (l *loop) giveUp(p *pair, reason Reason) {
	l.counters.failed.Add(1)
	l.reset(p, reason)
}

// end closes both sockets and frees the slot.
func (l *loop) end(p *pair, reason Reason) {
	l.clearDeadline(p)
	for i := range p.side {
		l.drop(&p.flow[i])
		l.forget(&p.side[i])
	}
	if p.endpoint != nil {
		p.endpoint.Closed()
	}
	l.relay.report(l, p, reason)
	if p.service.IdleTimeout > 0 {
		l.idlers--
	}
	p.socket.active.Add(-1)
	l.counters.active.Add(-1)
	limit := p.service.Limit
	l.pairs.put(p)
	l.leave(limit)
	l.feed()
}
