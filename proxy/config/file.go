package config

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"unicode/utf8"
)

// maxSize is the most bytes a file may have: room for tens of thousands of
// listeners, and a bound for what a mistaken path can cost.
const maxSize = 4 << 20

// maxDepth is how many keys and lists may lie inside each other. The schema
// needs four; a bound keeps recursion over foreign files small.
const maxDepth = 16

// document is one parsed file, before anything is known about its keys.
type document struct {
	values map[string]any
	places places
}

// parser reads one format. Either the document or the problems count.
type parser func(file string, data []byte) (document, []Problem)

// parserFor chooses the format by the extension of the file.
func parserFor(file string) (parser, []Problem) {
	switch ext := filepath.Ext(file); ext {
	case ".toml":
		return parseTOML, nil
	case ".yaml", ".yml":
		return parseYAML, nil
	case ".json":
		return parseJSON, nil
	default:
		return nil, []Problem{{
			File: file, Message: "unknown format: the extension is " + short(ext),
			Hint: "it must be .toml, .yaml, .yml or .json",
		}}
	}
}

// parseFile parses the content of a file. A UTF-8 byte order mark is skipped.
func parseFile(file string, data []byte) (document, []Problem) {
	parse, problems := parserFor(file)
	if problems != nil {
		return document{}, problems
	}
	if len(data) > maxSize {
		return document{}, []Problem{{File: file, Message: fmt.Sprintf("is larger than %d MiB", maxSize>>20)}}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if offset := firstBinary(data); offset >= 0 {
		at := newLocator(file, data).at(offset)
		return document{}, []Problem{at.problem(nil, refuse("save the file as UTF-8", "is not a text file"))}
	}
	return parse(file, data)
}

// firstBinary is the offset of the first byte that is not UTF-8 text, or -1.
func firstBinary(data []byte) int {
	nul := bytes.IndexByte(data, 0)
	if utf8.Valid(data) {
		return nul
	}
	invalid := 0
	for {
		r, size := utf8.DecodeRune(data[invalid:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		invalid += size
	}
	if nul < 0 {
		return invalid
	}
	return min(nul, invalid)
}

// fault is a problem of the syntax at p, whatever the key.
func (p place) fault(message string) Problem {
	return p.problem(nil, errors.New(message))
}

// duplicate is the problem of a key that is there twice.
func duplicate(k key, again, first place) Problem {
	return again.problem(k, refuse("first at "+first.String(), "is defined twice"))
}

// tooDeep is the problem of what maxDepth forbids.
func tooDeep(at place) Problem {
	return at.fault(fmt.Sprintf("is nested more than %d deep", maxDepth))
}
