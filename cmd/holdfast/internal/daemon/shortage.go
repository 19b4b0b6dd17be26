package daemon

// shortage finds out when connections begin to go unkept for want of room, and when that
// is over. There may be some for a moment in a burst, which are kept a second later, and
// there may be room for a moment: neither is worth a line in the log.
type shortage struct {
	said    bool   // that there is not enough room
	looks   int    // in a row that say otherwise
	refused uint64 // by the vault up to the last look
}

// After how many looks in a row it is said.
const (
	shortAfter = 2
	ampleAfter = 6
)

// look is called every lookEvery with how many connections the vault has refused so far,
// and how many are not kept now. It tells whether said has changed. Those that can be kept
// are offered to the vault every second: if it refuses none there is room for all.
func (s *shortage) look(refused uint64, unkept int64) (changed bool) {
	short := refused != s.refused && refused > 0 && unkept > 0
	s.refused = refused
	if short == s.said {
		s.looks = 0
		return false
	}
	s.looks++
	if short && s.looks < shortAfter || !short && s.looks < ampleAfter {
		return false
	}
	s.said, s.looks = short, 0
	return true
}

// tellShortage says so in the log. If it is the store that is too small, that is measured:
// the vault grows into a larger one by itself.
func (d *daemon) tellShortage() {
	if d.live.vault == nil {
		return
	}
	vault, unkept := d.live.vault.Stats(), d.engine.Unkept()
	switch {
	case !d.short.look(vault.Refused, unkept):
	case d.short.said:
		d.log.Warn("there is no room to keep all connections: some would end with this process",
			"connections", unkept, "reason", vault.Lacking, "kept", vault.Kept, "in_flight", vault.InFlight)
	default:
		d.log.Info("there is room to keep all connections again", "kept", vault.Kept)
	}
	if d.short.said && vault.OfStore {
		ask(d.keep.full)
	}
}
