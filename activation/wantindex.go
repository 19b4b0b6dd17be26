package activation

import "github.com/holdfast-proxy/holdfast/activation/sock"

// wantIndex finds a want by its name and its addresses; of several the first one.
type wantIndex struct {
	named    map[string]int
	at       map[sock.Addr]int
	datagram map[int]bool // wants with an address of UDP
}

func newWantIndex(wants []Want) wantIndex {
	x := wantIndex{named: make(map[string]int), at: make(map[sock.Addr]int), datagram: make(map[int]bool)}
	for n, w := range wants {
		if _, taken := x.named[w.Name]; !taken {
			x.named[w.Name] = n
		}
		for _, a := range w.Addrs {
			if _, taken := x.at[a]; !taken {
				x.at[a] = n
			}
			if a.Network == "udp" {
				x.datagram[n] = true
			}
		}
	}
	return x
}

// byName is the want that a candidate's name asks for, or nobody.
func (x wantIndex) byName(c *candidate) int {
	if c.socket.Origin.own() || c.socket.Name == "" {
		return nobody
	}
	n, ok := x.named[c.socket.Name]
	if !ok {
		return nobody
	}
	return n
}

// takes tells whether a want has a use for sockets of this kind.
func (x wantIndex) takes(want int, i sock.Info) bool {
	return i.Addr.Network != "udp" || x.datagram[want]
}

// byAddress prefers a want with the very address to one that the socket serves
// beside others.
func (x wantIndex) byAddress(c *candidate) int {
	if apart(c.socket.Info) {
		return nobody
	}
	addrs := c.socket.Info.ServedAddrs()
	if c.socket.Origin.own() {
		addrs = c.socket.Info.ListenAddrs()
	}
	if n, ok := x.at[addrs[0]]; ok {
		return n
	}
	first := nobody
	for _, a := range addrs[1:] {
		if n, ok := x.at[a]; ok && (first == nobody || n < first) {
			first = n
		}
	}
	return first
}

// apart tells a socket that is not all that its address says: a config has no way
// to ask for it, and one that is bound beside it would be another socket.
func apart(i sock.Info) bool {
	return i.Device != "" || i.OtherNetNS
}
