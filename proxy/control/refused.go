package control

import "strings"

// Problem is one reason for which an instance refuses.
type Problem struct {
	Error string `json:"error"`
	Hint  string `json:"hint"` // what to do about it, "" = not known
}

// RefusedError is the answer of an instance that has not done what it was asked for,
// and is as before.
type RefusedError struct {
	Reason   string    // in a few words
	Problems []Problem // in detail; may be empty
}

// Error is the problems, a line each, or the reason where there is none.
func (e *RefusedError) Error() string {
	if len(e.Problems) == 0 {
		return "the running instance refuses: " + e.Reason
	}
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.Error
	}
	return strings.Join(lines, "\n")
}
