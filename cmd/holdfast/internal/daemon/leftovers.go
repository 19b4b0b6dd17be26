package daemon

import (
	"context"
	"log/slog"
	"slices"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/proxy"
)

// tookBack is what the holder kept for this process.
type tookBack struct {
	store   fdstore.Returned
	sockets *activation.Source
	kept    kept // zero when nothing was kept, or nothing that this version can read
}

// takeBack takes what came from the store out of what came from socket units.
func takeBack(units *activation.Source, log *slog.Logger) tookBack {
	stored := units.Split(isStored, activation.Store)
	held := make([]fdstore.Held, len(stored.Offers))
	for i, o := range stored.Offers {
		held[i] = fdstore.Held(o)
	}
	stored.Offers = nil
	back := tookBack{store: fdstore.Reconcile(held, isOurs), sockets: stored}
	for _, s := range back.store.Stale {
		log.Warn("stored descriptor dropped", "name", s.Name, "reason", s.Reason)
	}
	for _, f := range back.store.Foreign {
		log.Warn("stored descriptor left alone: this version does not know it", "name", f.Name)
	}
	known := back.store.Known
	back.store.Known = nil
	for _, h := range known {
		if sock.IsStoreName(h.Name) {
			back.store.Known = append(back.store.Known, h)
			back.sockets.Offers = append(back.sockets.Offers, activation.Offer(h))
			continue
		}
		k, err := readKept(h.FD)
		if err != nil {
			// It would keep the place, and the name, of one that can be read.
			log.Warn("kept configuration dropped", "name", h.Name, "error", err.Error())
			back.store.Stale = append(back.store.Stale, fdstore.Stale{Name: h.Name, Reason: err.Error()})
			_ = h.FD.Close()
			continue
		}
		back.store.Known = append(back.store.Known, h)
		if k.Current.Number > back.kept.Current.Number {
			back.kept = k
		}
	}
	return back
}

// close closes the copies of what the store goes on keeping and this process needs no
// more.
func (b tookBack) close() {
	_ = b.sockets.Close()
	for _, h := range b.store.Foreign {
		_ = h.FD.Close()
	}
	for _, h := range b.store.Known {
		if !sock.IsStoreName(h.Name) {
			_ = h.FD.Close()
		}
	}
}

func readKept(fd *sock.FD) (kept, error) {
	content, err := fdstore.ReadMemfd(fd.Raw(), mostKept)
	if err != nil {
		return kept{}, err
	}
	return decodeKept(content)
}

// leftoverPlans tell how to serve who waits in the queues of sockets that came from the
// store, or from another process, and that the configuration does not want any more: by the last one
// that had them. The newest is the first. What no configuration knows is closed.
func (d *daemon) leftoverPlans(got *activation.Result) []proxy.Plan {
	left := d.leftovers(got)
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
	for _, s := range left {
		d.log.Warn("socket closed that no configuration knows", "socket", s.Info.String(), "name", s.Name)
		if err := d.closeSocket(s); err != nil {
			d.log.Warn("cannot close socket", "socket", s.Info.String(), "error", err.Error())
		}
	}
	return plans
}

// serveLeftovers serves and closes leftovers, the oldest first. Told to stop meanwhile it
// leaves them: a holder has them, too.
func (d *daemon) serveLeftovers(plans []proxy.Plan) {
	names, cancel := context.WithTimeout(d.until, lookupPatience)
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
	got.Unwanted = slices.DeleteFunc(got.Unwanted, func(u activation.Unwanted) bool {
		s, isSocket := u.Socket()
		if isSocket && u.Origin != activation.Systemd {
			left = append(left, s)
			return true
		}
		d.log.Warn("descriptor not used", "name", u.Name, "origin", string(u.Origin), "socket", u.Info.String(), "reason", u.Reason)
		if u.Origin == activation.Store {
			d.dropFromStore(u.Name)
		}
		if !isSocket {
			_ = u.FD.Close() // where it came from has it too
		}
		return !isSocket
	})
	for _, c := range got.Duplicates {
		d.log.Debug("second descriptor of a socket closed", "name", c.Name, "socket", c.Addr.String(), "origin", string(c.Origin))
		if c.Origin == activation.Store {
			d.dropFromStore(c.Name)
		}
	}
	return left
}

func (d *daemon) dropFromStore(name string) {
	if err := d.keep.remove(context.Background(), name); err != nil {
		d.log.Warn("cannot take a descriptor out of the store", "name", name, "error", err.Error())
	}
}
