package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAProblemIsOneLine(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]Problem{
		`holdfast.toml:12:1: listener.web.upstream: no upstream named "ap" (did you mean "app"?)`: {
			File: "holdfast.toml", Line: 12, Column: 1, Key: "listener.web.upstream",
			Message: `no upstream named "ap"`, Hint: `did you mean "app"?`,
		},
		"f.yaml:3: bad":           {File: "f.yaml", Line: 3, Message: "bad"},
		"--listen: bad":           {File: "--listen", Message: "bad"},
		"global.keep: bad":        {Key: "global.keep", Message: "bad"},
		`a\nb.toml: bad \x1b[31m`: {File: "a\nb.toml", Message: "bad \x1b[31m"},
	} {
		assert.Equal(t, want, p.String())
	}
}

func TestProblemsComeInTheOrderOfTheirPlaces(t *testing.T) {
	t.Parallel()
	_, err := parse("f.toml", `
[upstream.a]
servers = ["h:0", "tcp://h"]
balance = "x"
[listener.b]
upstream = "nobody"
bogus = 1
[global]
keep = 5
`)
	var lines []int
	for _, p := range problemsOf(t, err) {
		lines = append(lines, p.Line)
	}
	assert.Equal(t, []int{3, 3, 4, 6, 7, 9}, lines)
}

func TestNobodyReadsThousandsOfProblems(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "k%d = 1\n", i)
	}
	_, err := parse("f.toml", b.String())
	problems := problemsOf(t, err)
	require.Len(t, problems, maxProblems+1)
	assert.Equal(t, "4900 more problems are not shown", problems[maxProblems].String())
}

func TestKeysAreSpelledAsInTOML(t *testing.T) {
	t.Parallel()
	for want, k := range map[string]key{
		"":                        nil,
		"listener.web.listen[1]":  key{"listener", "web", "listen"}.item(1),
		`listener."a.b".upstream`: {"listener", "a.b", "upstream"},
		`listener."".upstream`:    {"listener", "", "upstream"},
		`listener."a\nb"`:         {"listener", "a\nb"},
	} {
		assert.Equal(t, want, k.String())
	}
}

func TestPlacesFallBackToTheTableAround(t *testing.T) {
	t.Parallel()
	ps := places{}
	list := key{"listener", "web", "listen"}
	ps[list.id()] = place{"f.toml", 4, 1}
	ps[list.item(0).id()] = place{"f.toml", 4, 11}
	ps[list.item(1).id()] = place{"f.toml", 4, 20}
	assert.Equal(t, 20, ps.find(list.item(1)).column)
	assert.Equal(t, 1, ps.find(list.item(2)).column)
	assert.Equal(t, place{}, ps.find(key{"global"}))

	ps.set(list, place{file: "--listen"})
	assert.Equal(t, place{file: "--listen"}, ps.find(list.item(1)), "not the element of the file")
}

func TestLocatorCountsLinesAndCharacters(t *testing.T) {
	t.Parallel()
	l := newLocator("f", []byte("aé\r\nb\n"))
	for _, c := range []struct{ offset, line, column int }{
		{0, 1, 1}, {1, 1, 2}, {3, 1, 3}, {5, 2, 1}, {6, 2, 2}, {7, 3, 1}, {99, 3, 1}, {1, 1, 2},
	} {
		assert.Equal(t, place{"f", c.line, c.column}, l.at(c.offset), "offset %d", c.offset)
	}
}

func TestDidYouMean(t *testing.T) {
	t.Parallel()
	known := []string{"listen", "upstream", "idle_timeout"}
	for word, want := range map[string]string{
		"listn":                    `did you mean "listen"?`,
		"Listen":                   `did you mean "listen"?`,
		"idletimeout":              `did you mean "idle_timeout"?`,
		"servers":                  "",
		"":                         "",
		strings.Repeat("x", 1<<20): "",
	} {
		assert.Equal(t, want, didYouMean(word, known))
	}
}
