package daemon

import (
	"errors"
	"slices"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/proxy"
	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// leftoverPlans tell how to serve who waits in the queues of sockets that came from the
// store, or from another process, and that the configuration does not want any more: by
// the last one that had them. The newest is the first. What no configuration knows is
// closed.
func (d *daemon) leftoverPlans(g *generation) []proxy.Plan {
	left := d.leftovers(g.got)
	var plans []proxy.Plan
	for _, former := range d.kept.generations() {
		if len(left) == 0 {
			break
		}
		var p proxy.Plan
		if p, left = d.planFor(former, left); len(p.Sockets) > 0 {
			plans = append(plans, p)
		}
	}
	d.giveUp(left, g.config.Global)
	return plans
}

// giveUp closes sockets of which no configuration says how to serve who waits there. Of an
// instance that hung those are among them at which it was asked.
func (d *daemon) giveUp(sockets []activation.Socket, global config.Global) {
	asks := []sock.Addr{sock.Unix(global.ControlSocket)}
	if global.Metrics != nil {
		asks = append(asks, socketAddr(*global.Metrics))
	}
	var names []string
	for _, s := range sockets {
		if !slices.Contains(asks, s.Addr()) {
			d.log.Warn("socket closed that no configuration knows", "socket", s.Info.String(), "name", s.Name)
		}
		names = append(names, storedName(s))
	}
	errs := []error{d.keep.remove(d.until, names...)}
	for _, s := range sockets {
		errs = append(errs, s.Close())
	}
	if err := errors.Join(errs...); err != nil {
		d.log.Warn("cannot close sockets", "error", err.Error())
	}
}

// serveLeftovers serves and closes leftovers, the oldest first. Told to stop meanwhile it
// leaves them: a holder has them, too.
func (d *daemon) serveLeftovers(plans []proxy.Plan) {
	names, cancel := d.forNames()
	defer cancel()
	for _, p := range slices.Backward(plans) {
		if d.engine.Finish(names, p) != nil {
			return
		}
	}
}

// planFor gives a former generation those of the sockets that it had, and returns the
// rest.
func (d *daemon) planFor(former keptGeneration, sockets []activation.Socket) (p proxy.Plan, rest []activation.Socket) {
	cfg, err := former.Inputs.Parse()
	if err != nil {
		d.log.Warn("a kept configuration is not understood any more", "generation", former.Number, "error", err.Error())
		return p, sockets
	}
	p = proxy.Plan{Generation: former.Number, Config: cfg}
	for i, matched := range activation.Match(wants(cfg), sockets) {
		for _, s := range matched {
			d.sockets.leaving.add(s, former.Number)
			p.Sockets = append(p.Sockets, d.served(cfg.Listeners[i].Name, s))
			d.log.Info("socket is not wanted any more: its queue is served", "socket", s.Info.String(), "listener", cfg.Listeners[i].Name)
		}
	}
	rest = slices.DeleteFunc(slices.Clone(sockets), func(s activation.Socket) bool { return d.sockets.leaving.includes(s) })
	return p, rest
}

// leftovers takes the sockets out that no listener wants, but for those of units. What else came
// and is of no use is named, and given up; sockets of units stay for a later reload.
func (d *daemon) leftovers(got *activation.Result) []activation.Socket {
	var left []activation.Socket
	var useless []string
	got.Unwanted = slices.DeleteFunc(got.Unwanted, func(u activation.Unwanted) bool {
		s, isSocket := u.Socket()
		if isSocket && u.Origin != activation.Systemd {
			left = append(left, s)
			return true
		}
		d.log.Warn("descriptor not used", "name", u.Name, "origin", string(u.Origin), "socket", u.Info.String(), "reason", u.Reason)
		if u.Origin == activation.Store {
			useless = append(useless, u.Name)
		}
		if !isSocket {
			_ = u.FD.Close() // where it came from has it too
		}
		return !isSocket
	})
	for _, c := range got.Duplicates {
		d.log.Debug("second descriptor of a socket closed", "name", c.Name, "socket", c.Addr.String(), "origin", string(c.Origin))
		if c.Origin == activation.Store {
			useless = append(useless, c.Name)
		}
	}
	if err := d.keep.remove(d.until, useless...); err != nil {
		d.log.Warn("cannot take descriptors out of the store", "error", err.Error())
	}
	return left
}
