package daemon

// complete tries again what could not be had at the start.
func (d *daemon) complete() {
	if len(d.current.missing) == 0 {
		return
	}
	g, err := newGeneration(d.current.number, d.current.inputs)
	if err != nil {
		return // it was understood before: this cannot be
	}
	g.got, g.missing = d.sockets.acquireRest(wants(g.config), nil)
	g.asks = d.current.asks
	if len(g.missing) > 0 && !g.hasBound() {
		_ = d.abandon(g) // nothing was opened for it
		return
	}
	d.keepIfPossible(d.until, g)
	if _, err := d.commit(g); err != nil {
		return // told to stop
	}
	d.log.Info("serving what was missing", "generation", g.number, "missing", len(g.missing))
}

// hasBound tells whether a socket was bound for the generation.
func (g *generation) hasBound() bool {
	for _, l := range g.got.Listeners {
		for _, s := range l.Sockets {
			if g.got.Bound(s) {
				return true
			}
		}
	}
	return false
}
