package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// maxAliased is how many values aliases may bring. Aliases of aliases grow a
// file of a hundred bytes to any size.
const maxAliased = 100_000

// parseYAML reads one YAML document. Anchors and aliases work: what an alias
// brings has its place at the anchor. Merge keys (<<) are unknown keys. The
// library's own decoder would not do: it gives no places, and its time grows
// with the square of the keys in a table.
func parseYAML(file string, data []byte) (document, []Problem) {
	w := &yamlWalk{file: file, places: places{}}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var root, second yaml.Node
	switch err := decoder.Decode(&root); {
	case errors.Is(err, io.EOF):
		return document{places: w.places}, nil
	case err != nil:
		return document{}, yamlProblems(file, err)
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		return document{}, []Problem{w.at(&second).fault("holds more than one YAML document")}
	case !errors.Is(err, io.EOF):
		return document{}, yamlProblems(file, err)
	}
	top := root.Content[0]
	values, isTable := w.value(nil, top).(map[string]any)
	if !isTable && top.ShortTag() != "!!null" && w.problems == nil {
		w.problems = []Problem{w.at(top).fault("expected keys with values at the top")}
	}
	return document{values, w.places}, w.problems
}

// yamlWalk turns nodes into values and notes the place of each key.
type yamlWalk struct {
	file     string
	places   places
	aliases  int // aliases we are inside of
	aliased  int // values that aliases brought
	problems []Problem
}

func (w *yamlWalk) at(n *yaml.Node) place {
	return place{w.file, n.Line, n.Column}
}

func (w *yamlWalk) value(k key, n *yaml.Node) any {
	if len(k) > maxDepth { // also the end of an alias of what encloses it
		w.problems = append(w.problems, tooDeep(w.at(n)))
		return nil
	}
	if w.aliases > 0 {
		w.aliased++
	}
	switch n.Kind {
	case yaml.MappingNode:
		return w.mapping(k, n)
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			w.places[k.item(i).id()] = w.at(item)
			list[i] = w.value(k.item(i), item)
		}
		return list
	case yaml.AliasNode:
		return w.alias(k, n)
	default:
		return w.scalar(k, n)
	}
}

func (w *yamlWalk) mapping(k key, n *yaml.Node) any {
	values := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		if name.Kind != yaml.ScalarNode {
			w.problems = append(w.problems, w.at(name).problem(k, errors.New("a key must be plain text")))
			continue
		}
		inner := k.child(name.Value)
		if _, twice := values[name.Value]; twice {
			w.problems = append(w.problems, duplicate(inner, w.at(name), w.places.find(inner)))
			continue
		}
		w.places[inner.id()] = w.at(name)
		values[name.Value] = w.value(inner, n.Content[i+1])
	}
	return values
}

func (w *yamlWalk) alias(k key, n *yaml.Node) any {
	if w.aliased > maxAliased {
		w.problems = append(w.problems, w.at(n).fault("aliases bring too many values"))
		return nil
	}
	w.aliases++
	defer func() { w.aliases-- }()
	return w.value(k, n.Alias)
}

func (w *yamlWalk) scalar(k key, n *yaml.Node) any {
	if n.ShortTag() == "!!str" {
		return n.Value
	}
	var v any
	if err := n.Decode(&v); err != nil {
		w.problems = append(w.problems, w.at(n).problem(k, errors.New("the value does not fit its tag "+short(n.Tag))))
	}
	return v
}

// yamlMessage is how the library writes an error; it has no other form of it.
var yamlMessage = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?((?s:.*))$`)

func yamlProblems(file string, err error) []Problem {
	parts := yamlMessage.FindStringSubmatch(err.Error())
	at := place{file: file}
	at.line, _ = strconv.Atoi(parts[1]) // none is 0: unknown
	return []Problem{at.fault(parts[2])}
}
