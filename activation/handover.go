package activation

import (
	"strings"

	"github.com/holdfast-proxy/holdfast/activation/handover"
)

// ToHandover is a socket as a replacement is given it, lent.
func ToHandover(s Socket) handover.Socket {
	label := handover.Label{Origin: string(s.Origin), StoreName: s.StoreName()}
	if !s.Origin.own() {
		label.Name = s.Name
	}
	return handover.Socket{Label: label, FD: s.FD.Raw()}
}

// FromHandover sorts what an original has given. A socket unit's is one here, too,
// under the unit's name. Any other is known by its address, and a Unix socket has its
// file, which is not to be touched before ShutdownOriginalNode is done: neither Close
// nor Retire what came from here until then.
//
// others are what is no listener's, by their names with a "/". They are the caller's.
func FromHandover(received []handover.Received) (units, own *Source, others []handover.Received) {
	units, own = &Source{Origin: Systemd}, &Source{Origin: Handover}
	for _, r := range received {
		switch {
		case strings.Contains(r.Name, "/"):
			others = append(others, r)
		case Origin(r.Origin) == Systemd:
			units.Offers = append(units.Offers, Offer{Name: r.Name, FD: r.FD})
		default:
			own.Offers = append(own.Offers, Offer{Name: r.StoreName, FD: r.FD})
		}
	}
	return units, own, others
}
