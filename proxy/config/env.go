package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/knadh/koanf/providers/env/v2"
)

const envPrefix = "HOLDFAST_"

// foreign reports whether a variable has our prefix but is no configuration.
// Kubernetes puts HOLDFAST_SERVICE_HOST, HOLDFAST_PORT_8080_TCP and the like
// into every pod near a service called holdfast; HOLDFAST_TEST_ is for tests.
func foreign(name string) bool {
	return name == "HOLDFAST_PORT" ||
		strings.HasPrefix(name, "HOLDFAST_PORT_") ||
		strings.HasPrefix(name, "HOLDFAST_SERVICE_") ||
		strings.HasPrefix(name, "HOLDFAST_TEST_")
}

// relevant is the variables that a configuration may depend on, ours and those
// of the default places of sockets, sorted by name.
func relevant(environ []string) []string {
	var kept []string
	for _, variable := range environ {
		name := variableName(variable)
		if name == runtimeVariable || name == sessionVariable || strings.HasPrefix(name, envPrefix) && !foreign(name) {
			kept = append(kept, variable)
		}
	}
	slices.SortStableFunc(kept, func(a, b string) int { return strings.Compare(variableName(a), variableName(b)) })
	return kept
}

// variableName is NAME of NAME=value.
func variableName(variable string) string {
	name, _, _ := strings.Cut(variable, "=")
	return name
}

// environment is the layer of the variables
//
//	HOLDFAST_GLOBAL_<KEY>, HOLDFAST_LISTENER_<NAME>_<KEY>, HOLDFAST_UPSTREAM_<NAME>_<KEY>
//
// KEY is the longest known key at the end, since a name may have underscores
// too; the keys of the health table are HEALTH_INTERVAL and so on. NAME stands
// for a name of the file, whatever its case and with - and . as underscores,
// else for a new name in lower case. Lists are separated by commas.
func environment(r *report, file map[string]any, environ []string) *env.Env {
	return env.Provider(delimiter, env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) {
			if foreign(name) {
				return "", nil
			}
			at := place{file: name}
			k, kind, err := variableKey(name, file)
			if err != nil {
				r.problems = append(r.problems, at.problem(nil, err))
				return "", nil
			}
			r.places.set(k, at)
			v, err := kind.fromString(value)
			if err != nil {
				r.add(k, err)
				return "", nil
			}
			return k.id(), v
		},
	})
}

// variableKey is the key that the variable of this name sets, and its kind.
func variableKey(name string, file map[string]any) (key, kind, error) {
	section, rest, _ := strings.Cut(strings.TrimPrefix(name, envPrefix), "_")
	section = strings.ToLower(section)
	s, known := schema.keys[section]
	if !known {
		return nil, 0, refuse("known are: HOLDFAST_GLOBAL_…, HOLDFAST_LISTENER_…, HOLDFAST_UPSTREAM_…", "unknown variable")
	}
	k := key{section}
	keys := s.variables()
	if s.kind == kindNamed {
		keys = s.each.variables()
		item, suffix := splitName(rest, keys)
		if _, known := keys[suffix]; known && item == "" {
			return nil, 0, refuse("", "unknown variable: it names no %s", section)
		}
		item, err := fileName(item, sortedNames(file, section))
		if err != nil {
			return nil, 0, err
		}
		k, rest = k.child(item), suffix
	}
	v, known := keys[rest]
	if !known {
		hint := didYouMean(rest, slices.Sorted(maps.Keys(keys)))
		if hint == "" {
			hint = "known are: " + strings.Join(slices.Sorted(maps.Keys(keys)), ", ")
		}
		return nil, 0, refuse(hint, "unknown variable: it does not end in a key of %s", section)
	}
	return k.child(v.key...), v.kind, nil
}

// splitName parts NAME_KEY before the longest known key. Without one all of it
// is key.
func splitName(text string, keys map[string]variable) (name, suffix string) {
	// The first underscore leaves the longest suffix.
	for i := range len(text) {
		if _, known := keys[text[i+1:]]; known && text[i] == '_' {
			return text[:i], text[i+1:]
		}
	}
	return "", text
}

// fileName is the name of the file that a name in a variable stands for.
func fileName(name string, known []string) (string, error) {
	var same []string
	for _, candidate := range known {
		if strings.EqualFold(name, strings.NewReplacer("-", "_", ".", "_").Replace(candidate)) {
			same = append(same, candidate)
		}
	}
	switch len(same) {
	case 0:
		return strings.ToLower(name), nil
	case 1:
		return same[0], nil
	}
	return "", refuse("", "%s could be each of %s", name, listed(same))
}

// variable is what the end of a variable's name stands for.
type variable struct {
	key  key // below the table of the listener, the upstream, or global
	kind kind
}

// variables lists the keys of a table and of the tables in it as variables
// have them.
func (s shape) variables() map[string]variable {
	all := map[string]variable{}
	for name, inner := range s.keys {
		upper := strings.ToUpper(name)
		if inner.kind != kindTable {
			all[upper] = variable{key{name}, inner.kind}
			continue
		}
		for suffix, v := range inner.variables() {
			all[upper+"_"+suffix] = variable{append(key{name}, v.key...), v.kind}
		}
	}
	return all
}

// fromString is the value of a variable in the form that shape.check leaves.
func (k kind) fromString(value string) (any, error) {
	switch k {
	case kindToggle:
		if value == "true" || value == "false" {
			return value == "true", nil
		}
	case kindNumber:
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			return n, nil
		}
	case kindList:
		items := []any{}
		if value == "" {
			return items, nil
		}
		for item := range strings.SplitSeq(value, ",") {
			items = append(items, strings.TrimSpace(item))
		}
		return items, nil
	default:
		return value, nil
	}
	return nil, refuse("", "expected %v, found %s", k, short(value))
}
