package vault

// Stats are how a vault stands at a moment.
type Stats struct {
	Kept     int    // connections and pipes that the next process would find
	Dead     int    // records of dropped ones that are in the queues still
	Segments int    // of two descriptors each
	InFlight int    // descriptors in all queues, live and dead
	Refused  uint64 // calls of Take and Keep that found no room, since the start
	Lacking  string // what the last of them found too little of, for people; "" = there was none
	OfStore  bool   // those were segments, for which a larger store has room
	Bytes    int64  // of memory behind the table
}

// Stats counts. It costs a system call.
func (v *Vault) Stats() Stats {
	st := Stats{
		Kept:     int(v.kept.Load()),
		InFlight: int(v.inFlight.Load()),
		Refused:  v.refused.Load(),
		Lacking:  v.lacking(),
		OfStore:  v.lack.Load() == int32(lacksSegments),
		Bytes:    v.table.bytes(),
	}
	for s := range v.segments {
		st.Segments++
		st.Dead += int(s.queued.Load())
	}
	st.Dead = max(st.Dead-st.Kept, 0) // counted at different moments
	return st
}
