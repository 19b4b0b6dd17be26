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
	UrgentLost     Reason = "urgent data lost" // by the kernel, before the socket was this program's
	ClientLeft     Reason = "client left"      // before a server was reached
	OutOfResources Reason = "out of resources" // no memory or descriptor for it
	NotRestored    Reason = "not restored"     // another process has left it, and it cannot go on
)

// finishFlow acts on a flow that takes no more from its source and owes nothing.
func (l *loop) finishFlow(p *pair, from int) {
	f := &p.flow[from]
	if f.state == ending {
		// A half-close: the other direction goes on for as long as it likes.
		f.state = done
		p.noteFlags() // first: the next process repeats the shutdown
		shutdown(p.side[1-from].fd, unix.SHUT_WR)
		l.releasePipe(p, f)
	}
	switch {
	case p.side[client].broken || p.side[server].broken:
		l.resetWhenDelivered(p)
	case p.flow[client].state == done && p.flow[server].state == done:
		l.end(p, Closed)
	}
}

// sideReset notes that nothing can be sent any more to one side of an open pair. What
// it sent before is still delivered, and how that ends tells what the other side
// gets: its FIN if there is one, and then a reset.
func (l *loop) sideReset(p *pair, at int) {
	toward, of := &p.flow[1-at], &p.flow[at]
	p.side[at].broken = true
	p.noteFlags()
	l.discardOwed(p, toward)
	toward.state = dead
	l.setDeadline(p, l.now+int64(flushPatience))
	if of.state == flowing || of.owes() {
		p.side[at].readable = true
		l.pump(p, at) // reads to the error or the end, then finishes the flow
		return
	}
	l.resetWhenDelivered(p)
}

// brokenSide is the side that ends a pair by its reset, and the reason.
func (p *pair) brokenSide() (int, Reason) {
	if p.side[client].broken {
		return client, ClientReset
	}
	return server, ServerReset
}

// resetWhenDelivered resets a pair once nothing is owed by its broken side, and what
// was sent to the other has arrived: a reset drops what is in the send queue.
func (l *loop) resetWhenDelivered(p *pair) {
	at, reason := p.brokenSide()
	other := &p.side[1-at]
	if f := &p.flow[at]; !other.broken && (f.state == flowing || f.owes()) {
		return
	}
	if other.tcp && !other.broken && !closed(other) {
		if p.unsent = unacknowledged(other.fd); p.unsent > 0 {
			p.phase = flushing
			l.setDeadline(p, l.now+int64(flushPatience))
			return
		}
	}
	l.reset(p, reason)
}

// closed tells whether a TCP side's connection is over, so that nothing will arrive
// any more. A hang-up alone does not say so: epoll tells of one too when both peers
// have sent FIN, while bytes still wait to be sent.
func closed(s *side) bool { return s.down && tcpClosed(s.fd) }

// checkDelivery looks after a pair with a broken side that is not gone yet: it is
// reset when the last bytes have arrived, or when none have for flushPatience.
func (l *loop) checkDelivery(p *pair) {
	at, reason := p.brokenSide()
	other := &p.side[1-at]
	if p.phase == open && p.flow[at].state == flowing && !p.side[at].down {
		return // it reads no more, but may go on sending for as long as it likes
	}
	left := unacknowledged(other.fd)
	if p.phase == flushing && (left == 0 || closed(other)) {
		l.reset(p, reason)
		return
	}
	if left != p.unsent {
		p.unsent, p.active = left, l.now
	}
	if l.now >= p.deadline && l.now >= p.active+int64(flushPatience) {
		l.reset(p, reason)
	}
}

// reset ends both sides of a pair as reset. A broken one of TCP was by its peer; the peer of
// a broken Unix socket may only read no more, and goes on writing.
func (l *loop) reset(p *pair, reason Reason) {
	p.noteState(slotReset)
	for i := range p.side {
		if s := &p.side[i]; s.fd >= 0 && (!s.tcp || !s.broken) {
			sever(s.fd, s.tcp)
		}
	}
	l.end(p, reason)
}

// quiet is for how long nothing may have moved on a connection that is ended in
// order while its peers would go on.
const quiet = time.Second

// hangUp ends a pair whose peers have not: in order where it looks idle, by reset
// where a peer would take the end for that of a whole stream, and it is not.
func (l *loop) hangUp(p *pair, reason Reason) {
	if !l.looksIdle(p) {
		l.reset(p, reason)
		return
	}
	p.noteState(slotEnded)
	l.endInOrder(p, reason)
}

// endInOrder ends the streams of a pair both ways.
func (l *loop) endInOrder(p *pair, reason Reason) {
	for i := range p.side {
		shutdown(p.side[i].fd, unix.SHUT_RDWR)
	}
	l.end(p, reason)
}

// looksIdle tells whether nothing is under way on a pair: both streams are open,
// nothing waits to be moved, and nothing has moved just now.
func (l *loop) looksIdle(p *pair) bool {
	if p.phase != open || l.now-p.active < int64(quiet) {
		return false
	}
	for i := range p.side {
		f, s := &p.flow[i], &p.side[i]
		if f.state != flowing || f.owes() || s.broken || hasUnread(s.fd) {
			return false
		}
	}
	return true
}

// giveUp ends a pair that never got a server. The client sees a reset: the end of
// an empty stream would look like an answer.
func (l *loop) giveUp(p *pair, reason Reason) {
	l.counters.failed.Add(1)
	l.reset(p, reason)
}

// end closes both sockets and frees the slot. What the peers are to see has happened:
// where a copy of a socket is kept, closing it sends nothing.
func (l *loop) end(p *pair, reason Reason) {
	l.clearDeadline(p)
	for i := range p.side {
		l.discardOwed(p, &p.flow[i])
	}
	l.unkeep(p)
	for i := range p.side {
		l.closeSide(&p.side[i])
	}
	l.relay.report(l, p, reason)
	l.remove(p)
}

// remove takes a pair out of all that counts it, and frees its place.
func (l *loop) remove(p *pair) {
	if p.endpoint != nil {
		p.endpoint.Closed()
	}
	if p.use.service.IdleTimeout > 0 {
		l.idlers--
	}
	p.use.active.Add(-1)
	l.counters.active.Add(-1)
	limit := p.use.service.Limit
	l.pairs.put(p)
	l.leave(limit)
	if l.paused {
		l.resumeAll()
	}
}
