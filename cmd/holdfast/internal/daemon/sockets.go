package daemon

import (
	"log/slog"
	"net/netip"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/proxy"
	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// acquire gives the listening sockets of every listener, from where they are.
func acquire(cfg *config.Config, inherited *activation.Source, log *slog.Logger) ([]proxy.Socket, error) {
	wants := make([]activation.Want, len(cfg.Listeners))
	for i, l := range cfg.Listeners {
		wants[i] = activation.Want{Name: l.Name, TakesAny: l.TakesAny()}
		for _, a := range l.Listen {
			wants[i].Addrs = append(wants[i].Addrs, socketAddr(a))
		}
	}
	got, err := activation.Acquire(wants, []*activation.Source{inherited})
	if err != nil {
		return nil, err
	}
	for _, u := range got.Unwanted {
		// The socket unit holds it too, so nobody in its queue is cut off.
		log.Warn("descriptor not used", "name", u.Name, "socket", u.Info.String(), "reason", u.Reason)
		_ = u.FD.Close()
	}
	for _, c := range got.Duplicates {
		log.Debug("second descriptor of a socket closed", "name", c.Name, "socket", c.Addr.String(), "origin", string(c.Origin))
	}
	var sockets []proxy.Socket
	for _, l := range got.Listeners {
		for _, s := range l.Sockets {
			sockets = append(sockets, proxy.Socket{
				FD: s.FD.Raw(), Label: s.Info.String(), Listener: l.Name, Origin: string(s.Origin),
				Shared: s.Origin == activation.Systemd, Close: s.Close,
			})
		}
	}
	return sockets, nil
}

// socketAddr is the identity of the socket that a configured address means. The
// configuration has only literal addresses for listeners.
func socketAddr(a config.Address) sock.Addr {
	if a.Network == "unix" {
		return sock.Unix(a.Path)
	}
	host, _ := netip.ParseAddr(a.Host) // the zero Addr, which is every address, for none
	return sock.TCP(netip.AddrPortFrom(host, a.Port))
}
