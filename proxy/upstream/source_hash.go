package upstream

import (
	"encoding/binary"
	"net/netip"
)

// sourceHash sends a client address to the same endpoint each time, by
// rendezvous hashing: each endpoint draws a number from the pair of client and
// endpoint, the highest wins. A new endpoint takes its share and moves nobody
// else; one that goes down spreads its clients over all others. Clients
// without an address, those of a Unix socket, take turns.
type sourceHash struct {
	anonymous roundRobin
}

func (b *sourceHash) pick(c candidates, client netip.Addr) *Endpoint {
	if !client.IsValid() {
		return b.anonymous.pick(c, client)
	}
	best, highest := c.first, uint64(0)
	source := hashAddr(client)
	for _, e := range c.endpoints {
		if !c.has(e) {
			continue
		}
		if score := mix(source ^ e.seed); score > highest {
			best, highest = e, score
		}
	}
	return best
}

func (b *sourceHash) peek(c candidates) *Endpoint { return c.first }

// hashAddr is the same for an IPv4 address and its IPv6-mapped form.
func hashAddr(a netip.Addr) uint64 {
	b := a.As16()
	return mix(mix(binary.BigEndian.Uint64(b[:8])) ^ binary.BigEndian.Uint64(b[8:]))
}

// mix spreads each bit of x over all bits of the result. It is the finalizer of
// SplitMix64 (Steele, Lea, Flood 2014) and fixed: a restart, or another host,
// sends a client to the same server.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
