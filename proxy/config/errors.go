package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// maxProblems bounds what one bad file can make an operator read.
const maxProblems = 100

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	File    string // the file, environment variable or flag it comes from; "" = unknown
	Line    int    // from 1; 0 = unknown or not a file
	Column  int    // in characters, from 1; 0 = unknown or not a file
	Key     string // such as "listener.web.upstream"; "" = the source as a whole
	Message string // what is wrong and what was expected
	Hint    string // what to do about it; "" where that is not known

	cause error // what the system said; nil for a problem of the content
}

// String is the problem on one line, for example
//
//	holdfast.toml:12:1: listener.web.upstream: no upstream named "ap" (did you mean "app"?)
func (p Problem) String() string {
	text := p.Message
	if p.Hint != "" {
		text += " (" + p.Hint + ")"
	}
	if p.Key != "" {
		text = p.Key + ": " + text
	}
	if p.File != "" {
		text = place{p.File, p.Line, p.Column}.String() + ": " + text
	}
	return oneLine(text)
}

// oneLine escapes control characters, which a file name or a parser's message
// may bring, so that they cannot forge lines of a log or drive a terminal.
func oneLine(text string) string {
	if !strings.ContainsFunc(text, unicode.IsControl) {
		return text
	}
	var clean strings.Builder
	for _, r := range text {
		if unicode.IsControl(r) {
			clean.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			clean.WriteRune(r)
		}
	}
	return clean.String()
}

// Error lists the problems of a configuration, at least one, in the order of
// their places. After a hundred a last one says how many are not shown.
type Error struct {
	Problems []Problem
}

// Error is one line for each problem.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives what the system said about a file, so that errors.Is finds
// fs.ErrPermission and fs.ErrNotExist.
func (e *Error) Unwrap() []error {
	var causes []error
	for _, p := range e.Problems {
		if p.cause != nil {
			causes = append(causes, p.cause)
		}
	}
	return causes
}

// report collects the problems of one load and knows where each key stands.
type report struct {
	problems []Problem
	places   places
}

// add reports why the value of key k is refused, at the place that gave it.
func (r *report) add(k key, err error) {
	r.problems = append(r.problems, r.places.find(k).problem(k, err))
}

// err is nil or an *Error with all problems.
func (r *report) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if more := len(r.problems) - maxProblems; more > 0 {
		r.problems = append(r.problems[:maxProblems:maxProblems],
			Problem{Message: strconv.Itoa(more) + " more problems are not shown"})
	}
	return &Error{Problems: r.problems}
}

// problem is what is wrong with the value of k that stands at p. An empty k is
// the source as a whole.
func (p place) problem(k key, err error) Problem {
	found := Problem{File: p.file, Line: p.line, Column: p.column, Key: k.String(), Message: err.Error()}
	var bad *valueError
	if errors.As(err, &bad) {
		found.Message, found.Hint = bad.message, bad.hint
	}
	return found
}

// valueError says why one value is refused, before its place is known.
type valueError struct {
	message string
	hint    string
}

func (e *valueError) Error() string {
	return Problem{Message: e.message, Hint: e.hint}.String()
}

// refuse makes the error of a value; hint is what to do about it or "".
func refuse(hint, format string, args ...any) error {
	return &valueError{message: fmt.Sprintf(format, args...), hint: hint}
}
