package cpio_test

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/vmtest/cpio"
)

// entry is what a reader finds, by the rules of the format.
type entry struct {
	mode    uint64
	content string
}

func read(t *testing.T, archive []byte) (names []string, entries map[string]entry) {
	t.Helper()
	entries = map[string]entry{}
	for {
		require.GreaterOrEqual(t, len(archive), 110)
		require.Equal(t, "070701", string(archive[:6]))
		field := func(n int) int {
			v, err := strconv.ParseUint(string(archive[6+8*n:14+8*n]), 16, 32)
			require.NoError(t, err)
			return int(v)
		}
		mode, size, nameSize := field(1), field(6), field(11)
		name := string(archive[110 : 110+nameSize-1])
		archive = archive[(110+nameSize+3)&^3:]
		if name == "TRAILER!!!" {
			assert.Empty(t, archive)
			return names, entries
		}
		names = append(names, name)
		entries[name] = entry{uint64(mode), string(archive[:size])}
		archive = archive[(size+3)&^3:]
	}
}

func TestFilesComeAfterTheirFolders(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, cpio.Write(&b, []cpio.File{
		{Name: "init", Mode: 0o755, Content: []byte("#!")},
		{Name: "a/b/c", Mode: 0o600, Content: []byte("12345")},
		{Name: "a/d", Mode: 0o644},
	}))
	names, entries := read(t, b.Bytes())
	assert.Equal(t, []string{"init", "a", "a/b", "a/b/c", "a/d"}, names)
	assert.Equal(t, map[string]entry{
		"init": {0o100755, "#!"}, "a": {0o040755, ""}, "a/b": {0o040755, ""}, "a/b/c": {0o100600, "12345"}, "a/d": {0o100644, ""},
	}, entries)
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, assert.AnError }

func TestAFullDiskIsAnError(t *testing.T) {
	assert.ErrorIs(t, cpio.Write(full{}, []cpio.File{{Name: "f"}}), assert.AnError)
}
