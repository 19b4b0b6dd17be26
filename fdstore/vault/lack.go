package vault

import "golang.org/x/sys/unix"

// What there is too little of when a connection cannot be kept. Any other error is what
// sendmsg(2) said.
const (
	lacksSlots    = unix.ENOSPC
	lacksSegments = unix.EAGAIN
	lacksFlight   = unix.ETOOMANYREFS
)

// refuse counts a connection that is not kept.
func (v *Vault) refuse(why unix.Errno) {
	v.lack.Store(int32(why))
	v.refused.Add(1)
}

// lacking says to people why the last one was not; "" = there was none.
func (v *Vault) lacking() string {
	switch why := unix.Errno(v.lack.Load()); why {
	case 0:
		return ""
	case lacksSlots:
		return "no slot of the vault is free"
	case lacksSegments:
		return "no segment of the vault has room, and the store takes no more of them, or not as fast"
	case lacksFlight:
		return "as many descriptors are in flight as this user may have (RLIMIT_NOFILE)"
	default:
		return "sendmsg: " + why.Error()
	}
}
