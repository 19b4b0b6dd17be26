package daemon

import (
	"net/netip"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// wants are the listeners of a configuration.
func wants(cfg *config.Config) []activation.Want {
	list := make([]activation.Want, len(cfg.Listeners))
	for i, l := range cfg.Listeners {
		list[i] = activation.Want{Name: l.Name, TakesAny: l.TakesAny()}
		for _, a := range l.Listen {
			list[i].Addrs = append(list[i].Addrs, socketAddr(a))
		}
	}
	return list
}

// socketAddr is the identity of the socket that a configured address means. The
// configuration has only literal addresses for listeners.
func socketAddr(a config.Address) sock.Addr {
	if a.Network == "unix" {
		return sock.Unix(a.Path)
	}
	host, _ := netip.ParseAddr(a.Host) // the zero Addr, which is every address, for none
	at := netip.AddrPortFrom(host, a.Port)
	if a.Network == "udp" {
		return sock.UDP(at)
	}
	return sock.TCP(at)
}
