package config

import (
	"maps"
	"math"
	"path/filepath"
	"slices"
)

// decode fills a Config from the merged sources, whose kinds are checked. A bad
// value is reported and its field left as it was by default.
func decode(r *report, merged map[string]any, environ []string) *Config {
	root := reader{r: r, values: merged}
	c := &Config{Global: decodeGlobal(root.table("global"), environ)}
	for _, name := range sortedNames(merged, "listener") {
		c.Listeners = append(c.Listeners, decodeListener(root.table("listener").table(name), name))
	}
	for _, name := range sortedNames(merged, "upstream") {
		c.Upstreams = append(c.Upstreams, decodeUpstream(root.table("upstream").table(name), name))
	}
	return c
}

func decodeGlobal(t reader, environ []string) Global {
	g := DefaultGlobal(environ)
	parsed(t, "control_socket", &g.ControlSocket, parseSocketPath)
	g.HandoverSocket = filepath.Join(filepath.Dir(g.ControlSocket), handoverSocket) // two services are told apart by either
	parsed(t, "handover_socket", &g.HandoverSocket, parseSocketPath)
	parsed(t, "keep", &g.Keep, oneOf(KeepConnections, KeepListeners))
	parsed(t, "drain_timeout", &g.DrainTimeout, parseTimeout)
	parsed(t, "on_term", &g.OnTerm, oneOf(OnTermAuto, OnTermKeep, OnTermDrain))
	parsed(t, "exit_idle", &g.ExitIdle, parseDuration)
	var metrics Address
	if parsed(t, "metrics", &metrics, parseMetrics); metrics != (Address{}) {
		g.Metrics = &metrics
	}
	parsed(t, "log_level", &g.LogLevel, oneOf(LogDebug, LogInfo, LogWarn, LogError))
	t.toggle("access_log", &g.AccessLog)
	return g
}

func decodeListener(t reader, name string) Listener {
	l := Listener{Name: name}
	parsedList(t, "listen", &l.Listen, parseListen)
	parsed(t, "upstream", &l.Upstream, notEmpty)
	t.toggle("accept_proxy", &l.AcceptProxy)
	parsedList(t, "trusted", &l.Trusted, parseNetwork)
	t.number("max_connections", &l.MaxConnections, 0, math.MaxInt32)
	parsed(t, "idle_timeout", &l.IdleTimeout, parseDuration)
	return l
}

func decodeUpstream(t reader, name string) Upstream {
	u := defaultUpstream(name)
	parsedList(t, "servers", &u.Servers, parseServer)
	parsed(t, "balance", &u.Balance, oneOf(RoundRobin, LeastConnections, Random2, SourceHash))
	parsed(t, "connect_timeout", &u.ConnectTimeout, parsePositive)
	parsed(t, "connect_retry", &u.ConnectRetry, parseDuration)
	parsed(t, "send_proxy", &u.SendProxy, oneOf(SendProxyOff, SendProxyV1, SendProxyV2))
	if _, given := t.values["health"]; given {
		h := decodeHealth(t.table("health"))
		u.Health = &h
	}
	return u
}

func decodeHealth(t reader) Health {
	const most = 1000 // probes in a row; beyond it a state would change after hours
	h := defaultHealth()
	parsed(t, "interval", &h.Interval, parsePositive)
	parsed(t, "timeout", &h.Timeout, parsePositive)
	t.number("rise", &h.Rise, 1, most)
	t.number("fall", &h.Fall, 1, most)
	return h
}

// sortedNames is the names in a section, which may be absent.
func sortedNames(values map[string]any, section string) []string {
	inner, _ := values[section].(map[string]any)
	return slices.Sorted(maps.Keys(inner))
}

// reader reads the keys of one table. An absent key leaves its field alone.
type reader struct {
	r      *report
	key    key
	values map[string]any
}

func (t reader) table(name string) reader {
	values, _ := t.values[name].(map[string]any)
	return reader{t.r, t.key.child(name), values}
}

func (t reader) toggle(name string, into *bool) {
	if v, given := t.values[name].(bool); given {
		*into = v
	}
}

func (t reader) number(name string, into *int, least, most int64) {
	switch n, given := t.values[name].(int64); {
	case !given:
	case n < least || n > most:
		t.r.add(t.key.child(name), refuse("", "%d is not from %d to %d", n, least, most))
	default:
		*into = int(n)
	}
}

// parsed reads a key whose text parse understands.
func parsed[T any](t reader, name string, into *T, parse func(string) (T, error)) {
	value, given := t.values[name].(string)
	if !given {
		return
	}
	v, err := parse(value)
	if err != nil {
		t.r.add(t.key.child(name), err)
		return
	}
	*into = v
}

// parsedList reads a list. A bad element stays in its place as the zero value,
// so that an index here is an index in the file.
func parsedList[T any](t reader, name string, into *[]T, parse func(string) (T, error)) {
	values, given := t.values[name].([]any)
	if !given {
		return
	}
	*into = make([]T, len(values))
	for i, value := range values {
		text, isString := value.(string)
		if !isString {
			continue // reported by shape.check
		}
		v, err := parse(text)
		if err != nil {
			t.r.add(t.key.child(name).item(i), err)
			continue
		}
		(*into)[i] = v
	}
}

// oneOf accepts the words of an enumeration.
func oneOf[T ~string](words ...T) func(string) (T, error) {
	return func(value string) (T, error) {
		if slices.Contains(words, T(value)) {
			return T(value), nil
		}
		known := make([]string, len(words))
		for i, w := range words {
			known[i] = string(w)
		}
		return "", refuse(didYouMean(value, known), "unknown value %s, expected one of %s", short(value), listed(known))
	}
}

func notEmpty(value string) (string, error) {
	if value == "" {
		return "", refuse("", "is empty")
	}
	return value, nil
}
