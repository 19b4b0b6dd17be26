package daemon

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/proxy"
	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// wants are the listeners of a configuration.
func wants(cfg *config.Config) []activation.Want {
	list := make([]activation.Want, len(cfg.Listeners))
	for i, l := range cfg.Listeners {
		list[i] = activation.Want{Name: l.Name, TakesAny: l.TakesAny()}
		for _, a := range l.Listen {
			list[i].Addrs = append(list[i].Addrs, socketAddr(a))
		}
	}
	return list
}

// socketAddr is the identity of the socket that a configured address means. The
// configuration has only literal addresses for listeners.
func socketAddr(a config.Address) sock.Addr {
	if a.Network == "unix" {
		return sock.Unix(a.Path)
	}
	host, _ := netip.ParseAddr(a.Host) // the zero Addr, which is every address, for none
	at := netip.AddrPortFrom(host, a.Port)
	if a.Network == "udp" {
		return sock.UDP(at)
	}
	return sock.TCP(at)
}

// holding is the sockets of this instance. The engine serves them; who opened and who
// closes them is told apart here.
type holding struct {
	inService []activation.Socket
	idle      []activation.Socket // of socket units, which a later configuration may want
	leaving   leaving
}

// all are those that a new configuration may use.
func (h *holding) all() []activation.Socket {
	return append(h.inService[:len(h.inService):len(h.inService)], h.idle...)
}

// settle takes note of what an Acquire gave, when it is in service. Of the sockets
// that no listener wants the socket units' stay here; the engine drains the others.
func (h *holding) settle(got *activation.Result) {
	h.inService = nil
	for _, l := range got.Listeners {
		h.inService = append(h.inService, l.Sockets...)
	}
	h.idle = nil
	for _, s := range got.Idle {
		if s.Origin == activation.Systemd {
			h.idle = append(h.idle, s)
		}
	}
	for _, u := range got.Unwanted {
		if s, ok := u.Socket(); ok && u.Origin == activation.Systemd {
			h.idle = append(h.idle, s)
		}
	}
}

// closeIdle closes the sockets of units that no listener wants. The units go on listening
// on them; where systemd has let go of one, its clients are refused from now on.
func (h *holding) closeIdle() {
	for _, s := range h.idle {
		_ = s.FD.Close()
	}
}

// served is a socket of a listener as the engine is handed it.
func (d *daemon) served(listener string, s activation.Socket) proxy.Socket {
	return proxy.Socket{
		ID: s.Info.Cookie, FD: s.FD.Raw(), Label: s.Info.String(), Listener: listener, Origin: string(s.Origin),
		Datagram: s.Info.Type == unix.SOCK_DGRAM, Shared: s.Origin == activation.Systemd,
		Retire: func() { d.retire(s) }, Close: func() error { return d.closeSocket(s) },
	}
}

// retire lets no new client get to a socket that drains, as far as the kernel can.
func (d *daemon) retire(s activation.Socket) {
	if err := s.Retire(); err != nil {
		d.log.Debug("clients get to a socket until it is closed", "error", err.Error())
	}
}

// closeSocket gives up a socket that no loop uses any more. One that the holder keeps
// goes from there first: who is killed in between finds it again, and drains it.
func (d *daemon) closeSocket(s activation.Socket) error {
	left := d.sockets.leaving.remove(s)
	switch {
	case s.Origin == activation.Systemd && !d.isStopping():
		return nil // it is idle now, and a later configuration may want it
	case s.Origin == activation.Systemd, !left && d.handsOn.Load():
		return s.FD.Close() // whoever listens on has its path too
	}
	return errors.Join(d.keep.removeOne(storedName(s)), s.Close())
}

// leaving are the sockets that no listener wants any more and that are open yet, as
// there may be clients in their queues; each with the last generation that served it.
// Its methods may be called from any goroutine.
type leaving struct {
	mu      sync.Mutex
	sockets map[*sock.Listener]leavingSocket
	last    time.Time // when one of them went
}

type leavingSocket struct {
	activation.Socket
	generation uint64
}

func (l *leaving) add(s activation.Socket, generation uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sockets == nil {
		l.sockets = make(map[*sock.Listener]leavingSocket)
	}
	l.sockets[s.Listener] = leavingSocket{s, generation}
}

// remove is called before a socket is closed, and tells whether it was leaving.
func (l *leaving) remove(s activation.Socket) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, leaves := l.sockets[s.Listener]
	delete(l.sockets, s.Listener)
	l.last = time.Now()
	return leaves
}

func (l *leaving) includes(s activation.Socket) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, leaves := l.sockets[s.Listener]
	return leaves
}

// has tells whether there are any of a generation.
func (l *leaving) has(generation uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.sockets {
		if s.generation == generation {
			return true
		}
	}
	return false
}

// gone is when the addresses of those that leave, or have left, are free for certain:
// not later than lateClose from now.
func (l *leaving) gone(now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.sockets) > 0 {
		return now.Add(lateClose)
	}
	return l.last.Add(lateClose)
}

// names are those under which they are in the store, or would be.
func (l *leaving) names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for _, s := range l.sockets {
		names = append(names, storedName(s.Socket))
	}
	return names
}

// listeners are those beside which another socket may be bound. mu is held, as none of
// them may be closed while that goes on.
func (l *leaving) listeners() []*sock.Listener {
	var all []*sock.Listener
	for one, s := range l.sockets {
		if s.Origin != activation.Systemd {
			all = append(all, one)
		}
	}
	return all
}
