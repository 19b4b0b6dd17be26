package daemon

// complete tries again what could not be had at the start, as long as something is
// missing.
func (d *daemon) complete() {
	if !d.missing {
		return
	}
	g, missing, err := d.prepareRest(d.current.number, d.current.inputs)
	if err != nil {
		return
	}
	if len(missing) > 0 && g.sockets() == d.current.sockets() {
		_ = d.abandon(g) // nothing was bound for it
		return
	}
	if _, err := d.replaceBy(g); err != nil {
		return
	}
	if d.missing = len(missing) > 0; d.missing {
		d.refused(missing)
		return
	}
	d.log.Info("nothing is missing any more", "generation", g.number)
}

// sockets is how many a generation has.
func (g *generation) sockets() int {
	n := 0
	for _, l := range g.got.Listeners {
		n += len(l.Sockets)
	}
	return n
}
