package relay

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/upstream"
)

// Use says whose the connections of one note are.
type Use struct {
	Socket  *Socket
	Service *Service
}

// Restored is what became of connections that another process has left.
type Restored struct {
	Connections int // that go on, among them those whose server is dialled again
	Ended       int // that the other process was ending
	Lost        int // that were reset, as they cannot go on
}

// Restore goes on with what another process has left in the vault, which is attached.
// uses has what its
// notes stand for; connections without one are reset. The descriptors are the relay's
// from now on. When it returns, no buffer of the other process is needed any more, nor
// any of its notes.
func (r *Relay) Restore(kept []Kept, uses map[uint32]Use) Restored {
	found, unused := r.adoptUses(uses)
	pipes := &leftPipes{fds: make(map[uint32]int32)}
	var all sync.WaitGroup
	doubles := doubles{}
	shares := make([][]Kept, len(r.loops))
	next := 0
	for _, k := range kept {
		if slotIn(k.Memory).state == slotPipe {
			pipes.fds[k.Slot] = k.FDs[0]
			continue
		}
		if doubles.found(k) {
			r.discard(k)
			continue
		}
		shares[next] = append(shares[next], k)
		next = (next + 1) % len(shares)
	}
	var sum restoring
	for i, share := range shares {
		all.Add(1)
		ok := r.loops[i].post(func(l *loop) {
			defer all.Done()
			l.now = r.clock()
			for _, k := range share {
				sum.count(l.restore(k, found[slotIn(k.Memory).note], pipes))
			}
		})
		if !ok {
			all.Done()
		}
	}
	all.Wait()
	for _, u := range found {
		u.loops.Add(-1)
	}
	pipes.close(r.anyVault())
	for _, number := range unused {
		r.anyVault().DropNote(number)
	}
	return Restored{int(sum.connections.Load()), int(sum.ended.Load()), int(sum.lost.Load())}
}

// adoptUses finds the use of each note, or makes it, and tells which notes are not
// needed any more when all connections have those of their uses. No use is over before
// it has its connections: who asks for counts meanwhile would drop its note.
func (r *Relay) adoptUses(uses map[uint32]Use) (found map[uint32]*use, unused []uint32) {
	found = make(map[uint32]*use, len(uses))
	for number, of := range uses {
		u := r.useOf(of)
		found[number] = u
		if !u.adoptNote(r, number) {
			unused = append(unused, number)
		}
	}
	return found, unused
}

// adoptNote tells whether a use has the note of that number, which it takes where there
// was no room for one of its own.
func (u *use) adoptNote(r *Relay, number uint32) bool {
	r.noting.Lock()
	defer r.noting.Unlock()
	if u.note.Load() == noNote {
		u.relay, r.noted[u] = r, r.anyVault()
		u.note.Store(number)
	}
	return u.note.Load() == number
}

// useOf is the use of a socket in a service: the present one, or a former one. Until it
// has its connections one more loop counts as serving it.
func (r *Relay) useOf(of Use) *use {
	s := of.Socket
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range append(s.former[:len(s.former):len(s.former)], s.current.Load()) {
		if u.service.Generation == of.Service.Generation && u.service.Listener == of.Service.Listener {
			u.loops.Add(1)
			return u
		}
	}
	u := newUse(s, of.Service)
	u.loops.Add(1)
	r.describe(u)
	s.former = append(s.former, u)
	return u
}

// doubles are the clients of connections that are to be dialled, by SO_COOKIE. One is
// found twice if the other process was killed while it gave it another socket for its
// server (rekeep).
type doubles map[uint64]bool

func (d doubles) found(k Kept) bool {
	if slotIn(k.Memory).state != slotDialing || k.FDs[client] < 0 {
		return false
	}
	cookie, err := unix.GetsockoptUint64(int(k.FDs[client]), unix.SOL_SOCKET, unix.SO_COOKIE)
	was := d[cookie]
	d[cookie] = true
	return err == nil && was
}

// discard gives up a slot, and does nothing to its connection.
func (r *Relay) discard(k Kept) {
	r.anyVault().Drop(k.Slot)
	for _, fd := range k.FDs {
		if fd >= 0 {
			closeFD(fd)
		}
	}
}

// leftPipes are the pipes that another process has left.
type leftPipes struct {
	mu  sync.Mutex
	fds map[uint32]int32 // by slot
}

// take gives out the pipe of a slot once.
func (p *leftPipes) take(number uint32) (pipe, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fd, ok := p.fds[number]
	delete(p.fds, number)
	return pipe{fd, number}, ok
}

// close closes those that no connection has.
func (p *leftPipes) close(v Vault) {
	for number, fd := range p.fds {
		v.Drop(number)
		closeFD(fd)
	}
}

type restoring struct{ connections, ended, lost atomic.Int64 }

func (r *restoring) count(err error) {
	switch {
	case err == nil:
		r.connections.Add(1)
	case errors.Is(err, errEnding):
		r.ended.Add(1)
	default:
		r.lost.Add(1)
	}
}

// errEnding is that a connection was being ended, which is done then.
var errEnding = errors.New("it was being ended")

// restore makes a pair of what was left of one connection. After an error it is ended.
func (l *loop) restore(k Kept, u *use, pipes *leftPipes) error {
	s := slotIn(k.Memory)
	if u == nil {
		l.dismiss(k)
		return l.lost(s, errors.New("its listener is not known"))
	}
	p := l.takeOver(k, u)
	var err error
	switch state := s.state; {
	case s.flags&^allFlags != 0:
		err = fmt.Errorf("flags %#x", s.flags)
	case state == slotDialing:
		err = l.redial(p)
	case state == slotOpen:
		err = l.resumeOpen(p, pipes)
	case state == slotReset:
		l.reset(p, Stopped)
		return errEnding
	case state == slotEnded:
		l.hangUpAll(p)
		return errEnding
	default:
		err = fmt.Errorf("state %d", state)
	}
	if err != nil {
		err = l.lost(s, err)
		p.side[client].broken, p.side[server].broken = false, false // whatever was noted: both are reset
		l.reset(p, NotRestored)
		return err
	}
	l.counters.restored.Add(1)
	return nil
}

// takeOver makes a pair of a slot, with nothing under way.
func (l *loop) takeOver(k Kept, u *use) *pair {
	s := slotIn(k.Memory)
	l.serial += uint64(len(l.relay.loops))
	p := l.pairs.take(l.serial)
	p.kept, p.number, p.use = s, k.Slot, u
	p.peer, p.local = s.peer.get(), s.local.get()
	p.opened, p.active = l.relay.moment(s.opened), l.now
	p.phase = accepted
	for i := range p.side {
		fd := k.FDs[i]
		p.side[i] = side{fd: fd, tcp: isTCP(fd), readable: true, writable: true, broken: s.has(flagBroken, i), eaten: s.has(flagEaten, i)}
	}
	if fd := p.side[server].fd; fd >= 0 {
		p.family, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN)
	}
	p.headerIn = s.flow[client].before
	atomic.StoreUint32(&s.note, u.note.Load())
	u.active.Add(1)
	u.service.Limit.active.Add(1)
	l.counters.active.Add(1)
	if u.service.IdleTimeout > 0 {
		l.idlers++
	}
	return p
}

// redial goes on with a connection of which no byte has moved: it begins anew, after
// its PROXY header where that was taken already.
func (l *loop) redial(p *pair) error {
	s := &p.side[server]
	switch {
	case s.fd < 0:
	case s.tcp:
		disconnect(s.fd)
	default:
		shutdown(s.fd, unix.SHUT_RDWR)
		p.family = unix.AF_UNSPEC // it may have been connected, and cannot be again
	}
	s.readable, s.writable = false, false
	setAccepted(p.side[client].fd, p.side[client].tcp) // it was kept before it had its options
	for i := range p.kept.flow {
		atomic.StoreUint32(&p.kept.flow[i].pipe, 0) // that had a PROXY header in it, for the former socket
	}
	if err := l.resumeHeader(p); err != nil {
		return err
	}
	if errno := l.registerSide(p, client); errno != 0 {
		return errno
	}
	if p.headerIn == 0 && l.expectsHeader(p) {
		l.awaitHeader(p)
		return nil
	}
	l.startDialing(p)
	return nil
}

// resumeHeader finds out whether the PROXY header of a client was taken, and takes what is
// left of it. Before anything was, what is noted of it may be half of it.
func (l *loop) resumeHeader(p *pair) error {
	s := &p.side[client]
	if !s.tcp || len(p.use.service.Trusted) == 0 && p.headerIn == 0 {
		return nil
	}
	n, err := consumed(s.fd)
	if err != nil {
		return err
	}
	s.noteReset()
	if n == 0 {
		sa, _ := name(s.fd, unix.SYS_GETPEERNAME)
		p.peer, p.local = addrPort(&sa), netip.AddrPort{}
		p.noteHeader(0)
		return nil
	}
	if left := p.headerIn - n; left > 0 && left <= int64(len(l.scratch)) {
		if _, errno := recv(s.fd, l.scratch[:left], 0); errno != 0 {
			return errno
		}
	}
	return nil
}

// resumeOpen goes on with a connection in the middle of its streams.
func (l *loop) resumeOpen(p *pair, pipes *leftPipes) error {
	for i := range p.side {
		s := &p.side[i]
		if s.fd < 0 {
			return errors.New("one of its sockets is missing")
		}
		s.noteReset()
	}
	p.headerOut = max(0, p.kept.flow[client].beyond-1)
	for i := range p.flow {
		if err := l.resumeFlow(p, i, pipes); err != nil {
			return err
		}
	}
	for i := range p.side {
		p.side[i].noteReset() // to look at the counters eats the error of one that came meanwhile
	}
	p.phase = open
	p.endpoint = l.endpointOf(p)
	for i := range p.side {
		if errno := l.registerSide(p, i); errno != 0 {
			return errno
		}
	}
	l.queueRestored(p)
	return nil
}

// noteReset notes that a TCP side was reset, when its error may have been eaten.
func (s *side) noteReset() {
	s.broken = s.broken || s.tcp && tcpClosed(s.fd) && !finReceived(s.fd)
}

// resumeFlow finds out what a flow owes. After an error its pipe is nobody's: others must
// not get what is in it.
func (l *loop) resumeFlow(p *pair, from int, pipes *leftPipes) error {
	err := l.findOwed(p, from, pipes)
	if err != nil {
		l.dropPipe(p, &p.flow[from])
	}
	return err
}

func (l *loop) findOwed(p *pair, from int, pipes *leftPipes) error {
	f, kept, src, dst := &p.flow[from], &p.kept.flow[from], &p.side[from], &p.side[1-from]
	if n := atomic.LoadUint32(&kept.pipe); n != 0 {
		one, ok := pipes.take(n - 1)
		if !ok {
			return errors.New("its pipe is missing")
		}
		f.pipe = one
		l.shared.pipes.made++
	}
	at, known, err := taken(kept, src)
	switch {
	case err != nil:
		return err
	case p.kept.has(flagDone, from):
		f.state, f.moved = done, at
		shutdown(dst.fd, unix.SHUT_WR)
		l.dropPipe(p, f)
		return nil
	case dst.broken:
		f.state, f.moved = dead, at
		l.dropPipe(p, f)
		return nil
	}
	if f.pipe.fd >= 0 {
		return l.resumePipe(p, from, at)
	}
	if !known {
		return errors.New("it is not known what was read from it")
	}
	f.moved = at
	if !dst.tcp {
		if at != kept.start {
			return errors.New("it is not known what was written to a Unix socket")
		}
		return nil
	}
	return l.resumeBuffer(p, from, at)
}

// taken is the position up to which the source was read, if that is known.
func taken(kept *slotFlow, src *side) (at int64, known bool, err error) {
	if src.tcp {
		n, err := consumed(src.fd)
		return n - kept.before, true, err
	}
	n, known := counted(src.fd)
	zero := kept.zero
	if kept.next != 0 && n == 0 {
		zero = kept.next // the counter was set, and that was not noted any more
	}
	return zero + n, known, nil
}

// resumePipe goes on with a flow whose bytes are in a pipe.
func (l *loop) resumePipe(p *pair, from int, at int64) error {
	f, kept, src, dst := &p.flow[from], &p.kept.flow[from], &p.side[from], &p.side[1-from]
	q, err := pending(f.pipe.fd)
	if err != nil {
		return err
	}
	f.piped = uint32(q)
	if dst.tcp {
		w, err := written(dst.fd)
		if err != nil {
			return err
		}
		sent := w - kept.beyond
		if !src.tcp {
			at = sent + q
		}
		if at-sent != q {
			return fmt.Errorf("%d bytes were read, %d written, %d are in the pipe", at, sent, q)
		}
	}
	f.moved = at
	switch {
	case q > 0:
		atomic.StoreUint32(&kept.buffer, poured) // before anything moves: they are not in the buffer any more
	case at > kept.start && kept.buffer != poured:
		return l.resumePour(p, from, at)
	}
	if !src.tcp {
		kept.recount(src.fd, at) // where it was used up, what the statistics say begins here
	}
	if q == 0 {
		l.releasePipe(p, f)
	}
	return nil
}

// resumePour goes on with a flow whose bytes were on their way from a buffer into a pipe.
func (l *loop) resumePour(p *pair, from int, at int64) error {
	f, kept := &p.flow[from], &p.kept.flow[from]
	old, ok := bufferAt(l.vault, kept.buffer)
	size := at - kept.start
	if !ok || uint64(size) > bufferSize || !fill(f.pipe.fd, old[:size]) {
		return fmt.Errorf("%d bytes are neither in its pipe nor in buffer %d", size, kept.buffer)
	}
	f.piped = uint32(size)
	atomic.StoreUint32(&kept.buffer, poured)
	return nil
}

// resumeBuffer goes on with a flow whose bytes are in a buffer of the other process.
func (l *loop) resumeBuffer(p *pair, from int, at int64) error {
	f, kept, dst := &p.flow[from], &p.kept.flow[from], &p.side[1-from]
	w, err := written(dst.fd)
	if err != nil {
		return err
	}
	sent := w - kept.beyond
	if kept.start > sent || sent > at || uint64(at-kept.start) > bufferSize { // the difference of two garbled ones may be below zero
		return fmt.Errorf("%d bytes were read, %d written, and its buffer begins at %d", at, sent, kept.start)
	}
	if sent == at {
		return nil
	}
	old, ok := bufferAt(l.vault, kept.buffer)
	if !ok {
		return fmt.Errorf("there is no buffer %d", kept.buffer)
	}
	buf, err := l.shared.buffers.get()
	if err != nil {
		return err
	}
	f.buf, f.off, f.end = buf, uint32(sent-kept.start), uint32(at-kept.start)
	copy(l.shared.buffers.bytes(buf)[f.off:f.end], old[f.off:f.end])
	atomic.StoreUint32(&kept.buffer, l.shared.buffers.number(buf))
	return nil
}

// dropPipe gives up a pipe with all that is in it.
func (l *loop) dropPipe(p *pair, f *flow) {
	if f.pipe.fd >= 0 {
		atomic.StoreUint32(&p.kept.flow[p.from(f)].pipe, 0)
		l.shared.pipes.remove(f.pipe)
		f.pipe, f.piped = noPipe, 0
	}
}

// queueRestored lets a restored pair go on, or end as its peers have ended it.
func (l *loop) queueRestored(p *pair) {
	for i := range p.side {
		if p.side[i].broken {
			l.sideReset(p, i)
			return
		}
	}
	if p.flow[client].state == done && p.flow[server].state == done {
		l.end(p, Closed)
		return
	}
	l.requeue(p)
}

// endpointOf finds the server that a pair is connected to, if the pool has it still.
func (l *loop) endpointOf(p *pair) *upstream.Endpoint {
	e := p.use.service.Pool.At(peerSockaddr(p.side[server].fd))
	if e != nil {
		e.Opened()
	}
	return e
}

// hangUpAll ends both sides of a pair in order.
func (l *loop) hangUpAll(p *pair) {
	for i := range p.side {
		shutdown(p.side[i].fd, unix.SHUT_RDWR)
	}
	l.end(p, Stopped)
}

// dismiss resets a connection that belongs to nobody.
func (l *loop) dismiss(k Kept) {
	slotIn(k.Memory).setState(slotReset)
	for _, fd := range k.FDs {
		switch {
		case fd < 0:
			continue
		case isTCP(fd):
			disconnect(fd)
		default:
			shutdown(fd, unix.SHUT_RDWR)
		}
	}
	l.vault.Drop(k.Slot)
	for _, fd := range k.FDs {
		if fd >= 0 {
			closeFD(fd)
		}
	}
}

// lost leaves a note that a connection does not go on.
func (l *loop) lost(s *slot, err error) error {
	l.relay.note(event{kind: notRestored, client: s.peer.get(), err: err})
	return err
}
