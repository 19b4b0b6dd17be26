package config

import (
	"maps"
	"slices"
)

// Overrides is what the flags of the command line say, in the words of the
// configuration. The zero value says nothing. It is part of the persistent form of
// [Inputs].
type Overrides struct {
	Listen         []string `json:"listen,omitempty"`          // addresses of the listener "default"
	Upstream       string   `json:"upstream,omitempty"`        // the one server of the upstream "default", which the listener "default" then uses
	ControlSocket  string   `json:"control_socket,omitempty"`  // path
	HandoverSocket string   `json:"handover_socket,omitempty"` // path
	LogLevel       string   `json:"log_level,omitempty"`
	DrainTimeout   string   `json:"drain_timeout,omitempty"` // "0" = at once; no flag of its own, --demo sets it

	// Adopted are addresses that listeners have beside their own, by the listener's name.
	Adopted map[string][]string `json:"adopted,omitempty"`
}

func (o Overrides) equal(other Overrides) bool {
	return slices.Equal(o.Listen, other.Listen) &&
		o.Upstream == other.Upstream &&
		o.ControlSocket == other.ControlSocket &&
		o.HandoverSocket == other.HandoverSocket &&
		o.LogLevel == other.LogLevel &&
		o.DrainTimeout == other.DrainTimeout &&
		maps.EqualFunc(o.Adopted, other.Adopted, slices.Equal)
}

// flags is the layer of the command line.
func flags(r *report, over Overrides) layer {
	global, listener, upstream := map[string]any{}, map[string]any{}, map[string]any{}
	set := func(table map[string]any, k key, v any, flag string) {
		table[k[len(k)-1]] = v
		r.places.set(k, place{file: flag})
	}
	for _, o := range []struct{ name, value, flag string }{
		{"control_socket", over.ControlSocket, "--control-socket"},
		{"handover_socket", over.HandoverSocket, "--handover-socket"},
		{"log_level", over.LogLevel, "--log-level"},
		{"drain_timeout", over.DrainTimeout, "--demo"},
	} {
		if o.value != "" {
			set(global, key{"global", o.name}, o.value, o.flag)
		}
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

// adopt gives listeners the addresses that they have beside their own.
func adopt(r *report, c *Config, adopted map[string][]string) {
	const flag = "--listener"
	names := make([]string, len(c.Listeners))
	for i, l := range c.Listeners {
		names[i] = l.Name
	}
	for _, name := range slices.Sorted(maps.Keys(adopted)) {
		at := slices.Index(names, name)
		if at < 0 {
			r.problems = append(r.problems, place{file: flag}.problem(nil, refuse(didYouMean(name, names), "no listener named %s", short(name))))
			continue
		}
		l := &c.Listeners[at]
		for _, text := range adopted[name] {
			a, err := parseListen(text)
			if err != nil {
				r.problems = append(r.problems, place{file: flag}.problem(nil, err))
				continue
			}
			if !slices.Contains(l.Listen, a) {
				r.places[key{"listener", name, "listen"}.item(len(l.Listen)).id()] = place{file: flag}
				l.Listen = append(l.Listen, a)
			}
		}
	}
}
