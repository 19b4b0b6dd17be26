package relay

import (
	"net/netip"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// redial goes on with a connection of which no byte has moved: it begins anew, after
// its PROXY header where that was taken already.
func (l *loop) redial(p *pair) error {
	s := &p.side[server]
	if s.fd >= 0 {
		sever(s.fd, s.tcp)
		if !s.tcp {
			p.family = unix.AF_UNSPEC // it may have been connected, and cannot be again
		}
	}
	s.readable, s.writable = false, false
	setAccepted(p.side[client].fd, p.side[client].tcp) // it was kept before it had its options
	l.settleDeath(p)
	for i := range p.kept.flow {
		atomic.StoreUint32(&p.kept.flow[i].pipe, 0) // that had a PROXY header in it, for the former socket
	}
	headed := p.headed()
	if headed {
		if err := l.resumeHeader(p); err != nil {
			return err
		}
	}
	if errno := l.registerSide(p, client); errno != 0 {
		return errno
	}
	if headed && p.headerIn == 0 {
		l.awaitHeader(p)
		return nil
	}
	l.startDialing(p)
	return nil
}

// headed tells whether the client of a pair that was kept must begin with a PROXY header. That
// is the word of who accepted it: its networks may not be the trusted ones any more. A former
// version did not leave it, and what the generation says is told only while that serves.
func (p *pair) headed() bool {
	return p.side[client].tcp && (p.headerIn > 0 || p.kept.headed != 0 || p.use.service.expectsHeader(p.peer.Addr()))
}

// resumeHeader finds out whether the PROXY header of a client was taken, and takes what is
// left of it. Before anything was, what is noted of it may be half of it.
func (l *loop) resumeHeader(p *pair) error {
	s := &p.side[client]
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
