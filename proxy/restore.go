package proxy

import (
	"time"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/relay"
	"github.com/holdfast-proxy/holdfast/proxy/upstream"
)

// Restore goes on with connections that another process has left in the vault, after Attach
// and the first Apply. A connection belongs to the generation that accepted it, also when its
// listener or its address are gone by now.
//
// The caller calls Hold before it opens the vault, and Unhold when Restore has returned: who
// waits in a queue must not take the place, under a limit, of one of these connections.
func (e *Engine) Restore(kept []relay.Kept) relay.Restored {
	e.changing.Lock()
	defer e.changing.Unlock()
	uses, closed := e.usesLeft()
	done := e.relay.Restore(kept, uses)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range closed {
		l.grant(e.drainNotes.left(l.ID, e.config.Global.DrainTimeout))
		e.running.Go(func() {
			e.awaitEnd(l)
			e.forget(l)
		})
	}
	spareReturned(e.sockets, e.config.Global.DrainTimeout)
	e.lost += int64(done.Lost)
	return done
}

// CountLost counts connections that another process has left and of which nothing is
// there to go on with.
func (e *Engine) CountLost(connections int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost += int64(connections)
}

// usesLeft finds the socket and the service of each note of connections that Attach was
// given. closed are the sockets of which only connections are left.
func (e *Engine) usesLeft() (uses map[uint32]relay.Use, closed []*listening) {
	e.mu.Lock()
	defer e.mu.Unlock()
	notes := e.usesNoted
	e.usesNoted = nil
	uses = make(map[uint32]relay.Use, len(notes))
	open := make(map[uint64]*listening, len(e.sockets))
	for _, l := range e.sockets {
		open[l.ID] = l
	}
	for number, content := range notes {
		n, err := relay.ReadNote(content)
		if err != nil {
			e.log.Error("not understood what another process has noted", "error", err.Error())
			continue
		}
		l := open[n.Socket]
		if l == nil || l.relayed == nil {
			l = e.closedSocket(n)
			open[n.Socket], closed = l, append(closed, l)
		}
		uses[number] = relay.Use{Socket: l.relayed, Service: e.serviceOf(n)}
	}
	return uses, closed
}

// closedSocket stands for a socket that is closed, and has connections. e.mu is held.
func (e *Engine) closedSocket(n relay.Note) *listening {
	l := newListening()
	l.Socket = Socket{ID: n.Socket, Label: n.Label, Listener: n.Listener, Origin: "closed"}
	l.relayed = relay.ClosedSocket(n.Socket, n.Label, e.serviceOf(n))
	l.draining = true
	close(l.closed)
	e.sockets = append(e.sockets, l)
	return l
}

// serviceOf is the service that a note tells of. What its listener said is in the note, or
// with each connection, and what its upstream says is asked of that, as it is now. An
// upstream that is gone has no servers. The caller holds changing, and e.mu.
func (e *Engine) serviceOf(n relay.Note) *relay.Service {
	l := config.Listener{Name: n.Listener, IdleTimeout: n.IdleTimeout}
	limit := e.limits[n.Listener]
	if limit == nil {
		limit = relay.NewLimit(0)
	}
	for _, p := range e.pools {
		if p.Name() == n.Upstream {
			return newService(l, p.Pool, limit, n.Generation)
		}
	}
	gone := upstream.New(config.Upstream{Name: n.Upstream, Balance: config.RoundRobin}, e.log, nil)
	return newService(l, gone, limit, n.Generation)
}

// Paused notes for how long the connections of another process stood still, for status.
func (e *Engine) Paused(pause time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pause = pause
}

// Attach has connections kept from now on, also those that are there as far as that is
// possible: a vault for each event loop, and memory of relay.TotalsSize bytes that the
// next process finds too. notes are what another process has left there, by number;
// Restore has to follow then. It is called again only after LetGo.
func (e *Engine) Attach(vaults []relay.Vault, memory []byte, notes map[uint32][]byte) {
	left := e.byKind(notes)
	e.mu.Lock()
	e.attached, e.usesNoted = true, left[relay.OfUse]
	e.drainNotes.attach(vaults[0], left[ofDrain])
	for _, l := range e.sockets {
		if !l.over.IsZero() {
			e.drainNotes.put(l.ID, l.over)
		}
	}
	e.mu.Unlock()
	e.relay.Attach(vaults, memory, left[relay.OfSocket])
	e.downNotes.attach(vaults[0], left[ofServer])
	e.settleDownNotes()
}

// byKind tells notes apart.
func (e *Engine) byKind(notes map[uint32][]byte) map[relay.NoteKind]map[uint32][]byte {
	kinds := make(map[relay.NoteKind]map[uint32][]byte)
	for number, content := range notes {
		n, err := relay.ReadNote(content)
		if err != nil {
			e.log.Error("not understood what another process has noted", "error", err.Error())
			continue
		}
		if kinds[n.Kind] == nil {
			kinds[n.Kind] = make(map[uint32][]byte)
		}
		kinds[n.Kind][number] = content
	}
	return kinds
}

// LetGo leaves the connections that are kept to the process that has the vault now.
// Nothing may be accepted meanwhile: Pause comes before.
func (e *Engine) LetGo() {
	e.downNotes.letGo()
	e.mu.Lock()
	e.drainNotes.letGo() // first: a socket whose connections are let go has none left
	e.mu.Unlock()
	e.relay.LetGo()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.attached = false
}

// SetKeeping tells whether new connections are kept, where there is a vault.
func (e *Engine) SetKeeping(on bool) { e.relay.SetKeeping(on) }

// ResetAtDeath tells whether every connection is reset when this process is killed, kept or
// not: nobody else has the vault, or there is none yet. A peer would take an end for that of
// the whole stream.
func (e *Engine) ResetAtDeath(on bool) { e.relay.ResetAtDeath(on) }
