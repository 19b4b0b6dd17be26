package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// parseJSON reads JSON token by token: decoding into maps would say nothing of
// places or of keys defined twice.
func parseJSON(file string, data []byte) (document, []Problem) {
	w := &jsonWalk{data: data, decoder: json.NewDecoder(bytes.NewReader(data)), locator: newLocator(file, data), places: places{}}
	w.decoder.UseNumber()
	if len(bytes.TrimSpace(data)) == 0 {
		return document{places: w.places}, nil // as an empty file of the other formats
	}
	top, ok := w.value(nil)
	if ok {
		at := w.locator.at(w.start())
		if _, err := w.decoder.Token(); !errors.Is(err, io.EOF) {
			w.problems = append(w.problems, at.fault("expected the end of the file"))
		}
	}
	values, isTable := top.(map[string]any)
	if ok && !isTable {
		w.problems = append(w.problems, newLocator(file, data).at(0).fault("expected an object at the top"))
	}
	if w.problems != nil {
		return document{}, w.problems
	}
	return document{values, w.places}, nil
}

// jsonWalk reads values and notes the place of each key.
type jsonWalk struct {
	data     []byte
	decoder  *json.Decoder
	locator  *locator
	places   places
	problems []Problem
}

// start is the offset of the next token: the decoder stops before what
// separates it from the one before.
func (w *jsonWalk) start() int {
	offset := int(w.decoder.InputOffset())
	rest := w.data[offset:]
	return offset + len(rest) - len(bytes.TrimLeft(rest, " \t\r\n,:"))
}

// next is the next token and its place. A syntax error is noted; ok is false.
func (w *jsonWalk) next() (token json.Token, at place, ok bool) {
	at = w.locator.at(w.start())
	token, err := w.decoder.Token()
	if err == nil {
		return token, at, true
	}
	reason := err.Error()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		reason = "the file ends before the value does"
	}
	w.problems = append(w.problems, at.fault(reason))
	return nil, at, false
}

// value reads the value of k; ok is false after a syntax error.
func (w *jsonWalk) value(k key) (v any, ok bool) {
	token, at, ok := w.next()
	if !ok {
		return nil, false
	}
	if len(k) > maxDepth {
		w.problems = append(w.problems, tooDeep(at))
		return nil, false
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			return w.object(k)
		}
		return w.array(k)
	case json.Number:
		if n, err := t.Int64(); err == nil {
			return n, true
		}
		f, _ := t.Float64() // out of range is infinite, and refused as any float is
		return f, true
	}
	return token, true
}

func (w *jsonWalk) object(k key) (any, bool) {
	values := map[string]any{}
	for {
		token, at, ok := w.next()
		if !ok {
			return nil, false
		}
		name, isName := token.(string)
		if !isName {
			return values, true // the closing brace, the decoder lets nothing else pass
		}
		inner := k.child(name)
		if _, twice := values[name]; twice {
			w.problems = append(w.problems, duplicate(inner, at, w.places.find(inner)))
		} else {
			w.places[inner.id()] = at
		}
		if values[name], ok = w.value(inner); !ok {
			return nil, false
		}
	}
}

func (w *jsonWalk) array(k key) (any, bool) {
	values := []any{}
	for i := 0; w.decoder.More(); i++ {
		w.places[k.item(i).id()] = w.locator.at(w.start())
		v, ok := w.value(k.item(i))
		if !ok {
			return nil, false
		}
		values = append(values, v)
	}
	_, _, ok := w.next() // the closing bracket
	return values, ok
}
