package vault

// lack is what there is too little of when a connection cannot be kept.
type lack int32

const (
	noLack lack = iota
	ofSlots
	ofSegments
	ofFlight
)

// lackText says so to people.
var lackText = [...]string{
	ofSlots:    "no slot of the vault is free",
	ofSegments: "no segment of the vault has room, and the store takes no more of them, or not as fast",
	ofFlight:   "as many descriptors are in flight as this user may have (RLIMIT_NOFILE)",
}

// refuse counts a connection that is not kept.
func (v *Vault) refuse(why lack) {
	v.lack.Store(int32(why))
	v.refused.Add(1)
}
