package daemon

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/proxy"
)

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
	if d.adoption.goesOn(s) {
		return
	}
	d.adoption.forget(s)
	if err := s.Retire(); err != nil {
		d.log.Debug("clients get to a socket until it is closed", "error", err.Error())
	}
}

// closeSocket gives up a socket that no loop uses any more. One that the holder keeps
// goes from there first: who is killed in between finds it again, and drains it.
func (d *daemon) closeSocket(s activation.Socket) error {
	left := d.sockets.leaving.closing(s)
	defer d.sockets.leaving.closed()
	d.adoption.forget(s)
	switch {
	case s.Origin == activation.Systemd && !d.isStopping():
		return nil // it is idle now, and a later configuration may want it
	case s.Origin == activation.Systemd, !left && d.handsOn.Load():
		return s.FD.Close() // whoever listens on has its path too
	case d.adoption.goesOn(s):
		return errors.Join(d.keep.removeOne(storedName(s)), s.FD.Close())
	}
	return errors.Join(d.keep.removeOne(storedName(s)), s.Close())
}
