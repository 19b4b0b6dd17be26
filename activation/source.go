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

// own tells whether nobody but this program, in this life or another one, says what
// such a socket is for. A socket unit's is the administrator's and never changed, and
// it alone comes under the name of a listener.
func (o Origin) own() bool { return o != Systemd }

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

// Split takes the offers whose names are mine out, into a Source of their own:
// systemd passes what was kept in its store together with the sockets of units,
// after them.
func (s *Source) Split(mine func(name string) bool, origin Origin) *Source {
	theirs, split := s.Offers, &Source{Origin: origin}
	s.Offers = nil
	for _, o := range theirs {
		if mine(o.Name) {
			split.Offers = append(split.Offers, o)
		} else {
			s.Offers = append(s.Offers, o)
		}
	}
	return split
}

// Close closes what nobody acquired.
func (s *Source) Close() error {
	return closeAll(&s.Offers, func(o Offer) error { return o.FD.Close() })
}
