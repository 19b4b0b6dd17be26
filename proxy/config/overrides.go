package config

// Overrides is what the flags of the command line say. The zero value says
// nothing.
type Overrides struct {
	Listen         []string // addresses of the listener "default"
	Upstream       string   // the one server of the upstream "default", which the listener "default" then uses
	ControlSocket  string   // path
	HandoverSocket string   // path
}

// flags is the layer of the command line.
func flags(r *report, over Overrides) layer {
	global, listener, upstream := map[string]any{}, map[string]any{}, map[string]any{}
	set := func(table map[string]any, k key, v any, flag string) {
		table[k[len(k)-1]] = v
		r.places.set(k, place{file: flag})
	}
	if over.ControlSocket != "" {
		set(global, key{"global", "control_socket"}, over.ControlSocket, "--control-socket")
	}
	if over.HandoverSocket != "" {
		set(global, key{"global", "handover_socket"}, over.HandoverSocket, "--handover-socket")
	}
	if len(over.Listen) > 0 {
		addresses := make([]any, len(over.Listen))
		for i, a := range over.Listen {
			addresses[i] = a
		}
		set(listener, key{"listener", DefaultName, "listen"}, addresses, "--listen")
	}
	if over.Upstream != "" {
		set(upstream, key{"upstream", DefaultName, "servers"}, []any{over.Upstream}, "--upstream")
		set(listener, key{"listener", DefaultName, "upstream"}, DefaultName, "--upstream")
	}
	l := layer{"global": global}
	if len(listener) > 0 {
		l["listener"] = map[string]any{DefaultName: listener}
	}
	if len(upstream) > 0 {
		l["upstream"] = map[string]any{DefaultName: upstream}
	}
	return l
}
