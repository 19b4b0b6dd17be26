package cli

import (
	"os"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// palette colours words, or not. Escape sequences are all of one length, so
// that a column whose every cell has one, the header's plain included, stays
// aligned.
type palette struct {
	on bool
}

// colours is on for a terminal whose user has not said otherwise, see
// no-color.org.
func colours(f *os.File, environ []string) palette {
	refused := slices.ContainsFunc(environ, func(variable string) bool {
		name, value, _ := strings.Cut(variable, "=")
		return name == "NO_COLOR" && value != "" || name == "TERM" && value == "dumb"
	})
	return palette{on: !refused && term.IsTerminal(int(f.Fd()))}
}

func (p palette) plain(text string) string { return p.paint("39", text) }
func (p palette) good(text string) string  { return p.paint("32", text) }
func (p palette) bad(text string) string   { return p.paint("31", text) }
func (p palette) busy(text string) string  { return p.paint("33", text) }

// state is green where nothing needs attention.
func (p palette) state(text string) string {
	if text == "running" || text == "active" {
		return p.good(text)
	}
	return p.busy(printable(text))
}

func (p palette) paint(code, text string) string {
	if !p.on {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[39m"
}

// printable replaces what could move the cursor or break a column: names and
// errors may come from anywhere.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}
