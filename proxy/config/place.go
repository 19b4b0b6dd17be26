package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// key is the path of a value: "listener", "web", "upstream". The part "[2]" is
// the third element of a list.
type key []string

// delimiter separates the parts of a key where it is one string. Names of
// listeners and upstreams have dots, so a dot would not do.
const delimiter = "\x00"

// bareKey is a key that needs no quotes in TOML and no cutting in a message.
var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

// child is the key of a value inside k.
func (k key) child(names ...string) key {
	return append(slices.Clip(k), names...)
}

// item is the key of element i of the list k, from 0.
func (k key) item(i int) key {
	return k.child("[" + strconv.Itoa(i) + "]")
}

// id is the key as an index of a map.
func (k key) id() string {
	return strings.Join(k, delimiter)
}

// String is the key as TOML spells it, with the index of a list element after
// it: upstream."db.main".servers[0].
func (k key) String() string {
	var text strings.Builder
	for i, part := range k {
		index := i > 0 && strings.HasPrefix(part, "[")
		if i > 0 && !index {
			text.WriteByte('.')
		}
		if index || bareKey.MatchString(part) {
			text.WriteString(part)
		} else {
			text.WriteString(short(part))
		}
	}
	return text.String()
}

// short quotes text from a file for a message, cut where it would fill screens.
func short(text string) string {
	const limit = 80
	if utf8.RuneCountInString(text) <= limit {
		return strconv.Quote(text)
	}
	return fmt.Sprintf("%.*q…", limit, text)
}

// place is where a value was given.
type place struct {
	file         string // file, environment variable or flag
	line, column int    // from 1; 0 = unknown
}

// String is "file:line:column" as far as it is known.
func (p place) String() string {
	text := p.file
	for _, n := range []int{p.line, p.column} {
		if n == 0 {
			break
		}
		text += ":" + strconv.Itoa(n)
	}
	return text
}

// places says where each key was given, by key.id.
type places map[string]place

// set says that k was given at p, and so was each table around it that is not
// known yet. It forgets the elements of the list that k was in a lower source.
func (ps places) set(k key, p place) {
	for i := 0; ps.has(k.item(i)); i++ {
		delete(ps, k.item(i).id())
	}
	ps[k.id()] = p
	for k = k[:len(k)-1]; len(k) > 0 && !ps.has(k); k = k[:len(k)-1] {
		ps[k.id()] = p
	}
}

// has reports whether k itself was given, with a good value or a bad one.
func (ps places) has(k key) bool {
	_, known := ps[k.id()]
	return known
}

// find is the place of k or of the nearest table that encloses it.
func (ps places) find(k key) place {
	for ; ; k = k[:len(k)-1] {
		if p, known := ps[k.id()]; known || len(k) == 0 {
			return p
		}
	}
}
