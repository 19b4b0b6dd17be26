package config

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// nameForm is what systemd takes as FileDescriptorName= and as the name of a
// stored descriptor, sd_pid_notify_with_fds(3), less what would need quotes.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,255}$`)

// validate checks the rules between the keys: names, references and addresses.
// What one value may be was checked when it was decoded. A key that is there but
// has no value was refused then, and is not reported again.
func validate(r *report, c *Config) {
	byName := make(map[string]Upstream, len(c.Upstreams))
	names := make([]string, len(c.Upstreams))
	for i, u := range c.Upstreams {
		byName[u.Name], names[i] = u, u.Name
		validateName(r, "upstream", u.Name)
		validateServers(r, u)
	}
	for _, l := range c.Listeners {
		validateName(r, "listener", l.Name)
		validateAcceptProxy(r, l)
		k := key{"listener", l.Name, "upstream"}
		u, known := byName[l.Upstream]
		switch {
		case known:
			validateLoop(r, l, u)
		case l.Upstream != "":
			hint := ""
			if len(r.problems) < maxProblems { // beyond it nobody reads what each costs
				hint = didYouMean(l.Upstream, names)
			}
			if hint == "" && strings.Contains(l.Upstream, "://") {
				hint = "an upstream has a name: write servers = ... in an [upstream.NAME] table"
			}
			r.add(k, refuse(hint, "no upstream named %s", short(l.Upstream)))
		case !r.places.has(k):
			r.add(k, refuse("name an [upstream.NAME] table, or use --upstream", "is missing"))
		}
	}
	validateAddresses(r, c)
}

func validateName(r *report, section, name string) {
	if !nameForm.MatchString(name) {
		r.add(key{section, name}, refuse("names match FileDescriptorName= of a socket unit",
			"a name has 1 to 255 letters, digits, dashes, underscores and dots"))
	}
}

// validateServers asks for servers that differ: each has its own line in status
// and its own series in the metrics.
func validateServers(r *report, u Upstream) {
	k := key{"upstream", u.Name, "servers"}
	if len(u.Servers) == 0 && (u.Servers != nil || !r.places.has(k)) {
		r.add(k, refuse(`write servers = ["tcp://HOST:PORT"]`, "at least one server is needed"))
	}
	seen := make(map[Address]int, len(u.Servers))
	for i, server := range u.Servers {
		if server == (Address{}) {
			continue
		}
		if first, twice := seen[server]; twice {
			r.add(k.item(i), refuse("", "%v is already %v", server, k.item(first)))
			continue
		}
		seen[server] = i
	}
}

// validateAcceptProxy refuses a listener that would believe nobody's header: its
// clients would all be taken for the proxy in front of them.
func validateAcceptProxy(r *report, l Listener) {
	k := key{"listener", l.Name}
	bad := l.Trusted == nil && r.places.has(k.child("trusted"))
	if l.AcceptProxy && len(l.Trusted) == 0 && !bad {
		r.add(k.child("accept_proxy"), refuse(`write trusted = ["10.0.0.0/8"] with the networks of the proxies in front`,
			"nobody is trusted to send a PROXY header"))
	}
}

// validateLoop refuses a server that is the listener itself: each connection
// would open the next until no descriptor is left.
func validateLoop(r *report, l Listener, u Upstream) {
	for i, server := range u.Servers {
		if slices.ContainsFunc(l.Listen, func(listen Address) bool { return reaches(server, listen) }) {
			r.add(key{"upstream", u.Name, "servers"}.item(i),
				refuse("", "%v is listener %s itself, which uses this upstream", server, short(l.Name)))
		}
	}
}

// reaches reports whether connecting to server surely ends at listen.
func reaches(server, listen Address) bool {
	if server == listen {
		return server != Address{} // the zero value is a refused one
	}
	if server.Network != "tcp" || listen.Network != "tcp" || server.Port != listen.Port {
		return false
	}
	to, err := netip.ParseAddr(server.Host)
	localhost := err != nil && server.Host == "localhost"
	switch on, err := netip.ParseAddr(listen.Host); {
	case err != nil: // every address of this host
		return localhost || to.IsLoopback()
	case on.IsUnspecified():
		return localhost || to.IsLoopback() && to.Is4() == on.Is4()
	default:
		return localhost && on.IsLoopback()
	}
}

// validateAddresses refuses an address that is to be bound twice. Addresses that
// only overlap are left to the kernel, which knows more of them.
func validateAddresses(r *report, c *Config) {
	owners := map[Address]key{}
	claim := func(a Address, k key) {
		if a == (Address{}) || a.Network != "unix" && a.Port == 0 {
			return
		}
		if first, taken := owners[a]; taken {
			r.add(k, refuse("first at "+r.places.find(first).String(), "%v is already %v", a, first))
			return
		}
		owners[a] = k
	}
	claim(Address{Network: "unix", Path: c.Global.ControlSocket}, key{"global", "control_socket"})
	claim(Address{Network: "unix", Path: c.Global.HandoverSocket}, key{"global", "handover_socket"})
	if c.Global.Metrics != nil {
		claim(*c.Global.Metrics, key{"global", "metrics"})
	}
	for _, l := range c.Listeners {
		for i, a := range l.Listen {
			claim(a, key{"listener", l.Name, "listen"}.item(i))
		}
	}
}
