package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// kind is what a key may hold.
type kind int

const (
	kindText     kind = iota // a string
	kindDuration             // a string; apart from text for the sake of its hint
	kindToggle               // true or false
	kindNumber               // a whole number
	kindList                 // a string or a list of strings
	kindTable                // a table with known keys
	kindNamed                // a table with a table for each name
)

func (k kind) String() string {
	return [...]string{
		"a string", `a duration such as "60s"`, "true or false", "a whole number",
		"a string or a list of strings", "a table", "a table for each name",
	}[k]
}

// shape is what the configuration may hold below one key.
type shape struct {
	kind kind
	keys map[string]shape // of a table
	each *shape           // of a named table
}

var listenerShape = shape{kind: kindTable, keys: map[string]shape{
	"listen":          {kind: kindList},
	"upstream":        {kind: kindText},
	"accept_proxy":    {kind: kindToggle},
	"trusted":         {kind: kindList},
	"max_connections": {kind: kindNumber},
	"idle_timeout":    {kind: kindDuration},
}}

var upstreamShape = shape{kind: kindTable, keys: map[string]shape{
	"servers":         {kind: kindList},
	"balance":         {kind: kindText},
	"connect_timeout": {kind: kindDuration},
	"connect_retry":   {kind: kindDuration},
	"send_proxy":      {kind: kindText},
	"health": {kind: kindTable, keys: map[string]shape{
		"interval": {kind: kindDuration},
		"timeout":  {kind: kindDuration},
		"rise":     {kind: kindNumber},
		"fall":     {kind: kindNumber},
	}},
}}

// schema is the whole configuration.
var schema = shape{kind: kindTable, keys: map[string]shape{
	"global": {kind: kindTable, keys: map[string]shape{
		"control_socket":  {kind: kindText},
		"handover_socket": {kind: kindText},
		"keep":            {kind: kindText},
		"drain_timeout":   {kind: kindDuration},
		"on_term":         {kind: kindText},
		"exit_idle":       {kind: kindDuration},
		"metrics":         {kind: kindText},
		"log_level":       {kind: kindText},
		"access_log":      {kind: kindToggle},
	}},
	"listener": {kind: kindNamed, each: &listenerShape},
	"upstream": {kind: kindNamed, each: &upstreamShape},
}}

// check returns v with nothing in it but known keys of the right kind: string,
// bool, int64, []any of strings and map[string]any. The rest is reported and left out.
// ok is false if nothing is left.
func (s shape) check(r *report, k key, v any) (checked any, ok bool) {
	switch s.kind {
	case kindTable, kindNamed:
		if v == nil { // a heading without content, as YAML and JSON have it
			return map[string]any{}, true
		}
		if m, isTable := v.(map[string]any); isTable {
			return s.checkTable(r, k, m), true
		}
	case kindList:
		return checkList(r, k, v)
	case kindToggle:
		if b, isBool := v.(bool); isBool {
			return b, true
		}
	case kindNumber:
		if n, isInt := asInt(v); isInt {
			return n, true
		}
	case kindText, kindDuration:
		if t, isString := v.(string); isString {
			return t, true
		}
	}
	r.add(k, refuse(s.hint(k, v), "expected %v, found %s", s.kind, describe(v)))
	return nil, false
}

func (s shape) checkTable(r *report, k key, m map[string]any) map[string]any {
	checked := make(map[string]any, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		inner, known := s.keys[name]
		if s.kind == kindNamed {
			inner, known = *s.each, true
		}
		if !known {
			r.addUnknown(k.child(name), s.keys)
			continue
		}
		if v, ok := inner.check(r, k.child(name), m[name]); ok {
			checked[name] = v
		}
	}
	return checked
}

// addUnknown reports a key that is none of the known ones.
func (r *report) addUnknown(k key, keys map[string]shape) {
	known := slices.Sorted(maps.Keys(keys))
	hint := didYouMean(k[len(k)-1], known)
	if hint == "" {
		hint = "known are: " + listed(known)
	}
	r.add(k, refuse(hint, "unknown key"))
}

// checkList makes a list of what is one. An element that is no string is
// reported and stays in its place as nil.
func checkList(r *report, k key, v any) ([]any, bool) {
	if s, isString := v.(string); isString {
		return []any{s}, true
	}
	items, isList := v.([]any)
	if !isList {
		r.add(k, refuse("", "expected %v, found %s", kindList, describe(v)))
		return nil, false
	}
	checked := make([]any, len(items))
	for i, item := range items {
		if _, isString := item.(string); isString {
			checked[i] = item
			continue
		}
		r.add(k.item(i), refuse("", "expected %v, found %s", kindText, describe(item)))
	}
	return checked, true
}

// hint helps with the slips that are to be expected.
func (s shape) hint(k key, v any) string {
	n, isInt := asInt(v)
	switch {
	case s.kind == kindDuration && isInt && n == 0:
		return `write "0"`
	case s.kind == kindDuration && isInt:
		return fmt.Sprintf(`write "%ds"`, n)
	case s.kind == kindNamed:
		return fmt.Sprintf("write [%v.NAME]", k)
	}
	return ""
}

// asInt is v as a whole number. TOML and JSON have int64, YAML int or uint64.
func asInt(v any) (int64, bool) {
	switch n := v.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, true
	case uint64:
		if n <= math.MaxInt64 {
			return int64(n), true
		}
	}
	return 0, false
}

// describe says what was found in the place of something else.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case string:
		return "the string " + short(v)
	case bool:
		return fmt.Sprint(v)
	case int, int64, uint64, float64:
		return fmt.Sprintf("the number %v", v)
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	default: // date of TOML, time.Time of YAML
		return "a date or time"
	}
}
