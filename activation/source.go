package activation

import "github.com/holdfast-proxy/holdfast/activation/sock"

// Origin says how a socket reached this process. The values are those that
// status shows.
type Origin string

// The values of Origin.
const (
	Systemd  Origin = "systemd"  // a socket unit passed it
	Store    Origin = "store"    // it was kept by the holder over a restart
	Handover Origin = "handover" // a running instance gave it
	Pidfd    Origin = "pidfd"    // it was taken out of a running process
	Bind     Origin = "bind"     // this process bound it
)

// Source is the descriptors that came from one place. It owns them until an
// Acquire succeeds; then it is empty.
type Source struct {
	Origin Origin
	Offers []Offer // in the order of arrival
}

// Offer is one descriptor and the name that came with it.
type Offer struct {
	Name string // "" when it came without a usable one
	FD   *sock.FD
}

// Close closes what nobody acquired.
func (s *Source) Close() error {
	return closeAll(&s.Offers, func(o Offer) error { return o.FD.Close() })
}
