package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// parse loads the content of a file without environment and flags.
func parse(name, content string) (*Config, error) {
	return Parse(name, []byte(content), nil, Overrides{})
}

// problemsOf is the problems of an error that must be an *Error.
func problemsOf(t *testing.T, err error) []Problem {
	t.Helper()
	var list *Error
	require.ErrorAs(t, err, &list)
	require.NotEmpty(t, list.Problems)
	return list.Problems
}
