package config

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// maxBrackets is how many more brackets may open than close before a place in a
// TOML file. The library descends once for each, and a Go stack that overflows
// ends the process, which no recover prevents.
const maxBrackets = 1000

// parseTOML reads the library's syntax tree. Its decoder would not do: it says
// nothing of the place of a good key, nor of that of a key defined twice, and
// its time grows with the square of the keys in a table.
func parseTOML(file string, data []byte) (document, []Problem) {
	w := &tomlWalk{locator: newLocator(file, data), places: places{}, roles: map[string]role{}}
	if offset := deepBracket(data); offset >= 0 {
		return document{}, []Problem{w.locator.at(offset).fault("too many brackets are open")}
	}
	root := map[string]any{}
	w.table = root
	w.parser.Reset(data)
	for w.parser.NextExpression() {
		w.expression(root, w.parser.Expression())
	}
	var syntax *unstable.ParserError
	if err := w.parser.Error(); errors.As(err, &syntax) {
		at := w.locator.at(int(w.parser.Range(syntax.Highlight).Offset))
		fault := at.fault(syntax.Message)
		if lacksQuotes(data[:min(int(w.parser.Range(syntax.Highlight).Offset)+1, len(data))]) {
			fault.Hint = "a text needs quotes"
		}
		w.problems = append(w.problems, fault)
	}
	return document{root, w.places}, w.problems
}

// unquoted is a value that begins as neither of TOML's kinds does, up to its first or its last
// letter.
var unquoted = regexp.MustCompile(`=[ \t]*[^\s"'\[{#=+0-9-][^\s"']*$`)

// lacksQuotes tells whether a file went wrong, up to there, in what may be meant as a text.
func lacksQuotes(upTo []byte) bool { return unquoted.Match(upTo[bytes.LastIndexByte(upTo, '\n')+1:]) }

// tomlWalk visits the syntax tree in the order of the text.
type tomlWalk struct {
	parser   unstable.Parser
	locator  *locator
	places   places
	roles    map[string]role // by key.id
	heading  key             // the heading in force
	table    map[string]any  // its values; nil if it was refused
	problems []Problem
}

// role is how a key came to be. It decides how it may be named again.
type role int

const (
	roleOuter   role = iota + 1 // a in [a.b]
	roleDotted                  // a in a.b = 1
	roleHeading                 // b in [a.b]
	roleValue                   // b in a.b = 1
)

// clashes reports whether a key of this role may not be there before as well.
func (r role) clashes(before role) bool {
	switch r {
	case roleOuter:
		return before == roleValue
	case roleDotted:
		return before == roleValue || before == roleHeading
	case roleHeading:
		return before != roleOuter
	default:
		return true
	}
}

func (w *tomlWalk) expression(root map[string]any, e *unstable.Node) {
	switch e.Kind {
	case unstable.Table:
		last, outer, ok := w.define(root, nil, e.Key(), roleOuter, roleHeading)
		w.heading, w.table = last, nil
		if ok {
			w.table = inside(outer, last[len(last)-1])
		}
	case unstable.ArrayTable:
		w.refuseArray(e.Key())
		w.table = nil
	case unstable.KeyValue:
		if w.table != nil {
			w.keyValue(w.table, w.heading, e)
		}
	}
}

// refuseArray reports an [[array of tables]], which no key takes.
func (w *tomlWalk) refuseArray(parts unstable.Iterator) {
	parts.Next()
	at := w.locator.at(int(parts.Node().Raw.Offset))
	k := key{string(parts.Node().Data)}
	w.problems = append(w.problems, at.problem(k, refuse("write ["+k.String()+".NAME]", "expected a table, found a list of tables")))
}

// keyValue puts the value of an expression into the table of parent.
func (w *tomlWalk) keyValue(table map[string]any, parent key, e *unstable.Node) {
	k, table, ok := w.define(table, parent, e.Key(), roleDotted, roleValue)
	if ok {
		table[k[len(k)-1]] = w.value(k, e.Value())
	}
}

// define notes the places and roles of the parts of a dotted key below parent
// and makes the tables on the way. It returns the whole key and the table that
// its last part belongs into. A clash is reported; ok is false.
func (w *tomlWalk) define(table map[string]any, parent key, parts unstable.Iterator, before, last role) (key, map[string]any, bool) {
	k := parent
	for parts.Next() {
		at := w.locator.at(int(parts.Node().Raw.Offset))
		k = k.child(string(parts.Node().Data))
		if len(k) > maxDepth {
			w.problems = append(w.problems, tooDeep(at))
			return k, nil, false
		}
		now := before
		if parts.IsLast() {
			now = last
		}
		was, known := w.roles[k.id()]
		if known && now.clashes(was) {
			w.problems = append(w.problems, duplicate(k, at, w.places.find(k)))
			return k, nil, false
		}
		w.roles[k.id()] = max(was, now)
		if !known {
			w.places[k.id()] = at
		}
		if !parts.IsLast() {
			table = inside(table, k[len(k)-1])
		}
	}
	return k, table, true
}

// inside is the table of that name in another, made if it is not there.
func inside(table map[string]any, name string) map[string]any {
	inner, exists := table[name].(map[string]any)
	if !exists {
		inner = map[string]any{}
		table[name] = inner
	}
	return inner
}

func (w *tomlWalk) value(k key, v *unstable.Node) any {
	children := v.Children()
	switch v.Kind {
	case unstable.InlineTable:
		inner := map[string]any{}
		for children.Next() {
			w.keyValue(inner, k, children.Node())
		}
		return inner
	case unstable.Array:
		list := []any{}
		for children.Next() {
			item, ik := children.Node(), k.item(len(list))
			if item.Raw.Length > 0 { // the parser gives none for a list or a boolean
				w.places[ik.id()] = w.locator.at(int(item.Raw.Offset))
			}
			list = append(list, w.value(ik, item))
		}
		return list
	case unstable.String:
		return string(v.Data)
	case unstable.Bool:
		return string(v.Data) == "true"
	case unstable.Integer, unstable.Float:
		return w.number(k, string(v.Data))
	default:
		return date(v.Data)
	}
}

// number reads an integer; a float is only ever shown as what was not expected.
func (w *tomlWalk) number(k key, text string) any {
	base, plain := 0, strings.ReplaceAll(text, "_", "")
	if strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-") {
		base = 10 // only without a sign may 0x, 0o and 0b lead
	}
	if n, err := strconv.ParseInt(plain, base, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(plain, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		w.problems = append(w.problems, w.places.find(k).problem(k, fmt.Errorf("%s is not a number", short(text))))
	}
	return f
}

// date is a date or a time, which no key takes.
type date string

// deepBracket is the offset of the bracket that is one too many, or -1. It does
// not know strings and comments; no honest one opens a thousand brackets.
func deepBracket(data []byte) int {
	depth := 0
	for i, c := range data {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(0, depth-1)
		}
		if depth > maxBrackets {
			return i
		}
	}
	return -1
}
