package daemon

// dump writes the state to the log.
func (d *daemon) dump() {
	s := d.Status()
	for _, l := range s.Listeners.Sockets {
		d.log.Info("state of a socket", "socket", l.Socket, "listener", l.Names[0], "state", string(l.State),
			"origin", l.Origin, "connections", l.Connections, "accepted", l.Accepted, "paused", l.Paused)
	}
	for _, u := range s.Upstreams {
		for _, server := range u.Servers {
			d.log.Info("state of a server", "upstream", u.Name, "server", server.Address,
				"healthy", server.Healthy, "connections", server.Connections, "error", server.LastError)
		}
	}
	c := s.Connections
	d.log.Info("state", "state", string(s.State), "generation", s.Generation, "holder", s.Holder,
		"active", c.Active, "kept", c.Kept, "unkept", c.Unkept, "restored", c.Restored, "lost", c.Lost,
		"accepted", c.Accepted, "failed", c.Failed, "bytes_in", c.BytesIn, "bytes_out", c.BytesOut)
}
