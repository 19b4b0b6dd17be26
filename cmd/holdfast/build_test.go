package main

import (
	"debug/buildinfo"
	"debug/elf"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What `make build` makes runs on every Linux of its architecture: no program
// interpreter loads shared libraries into it.
func TestTheBuiltBinaryIsStatic(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "holdfast")
	out, err := exec.Command("make", "-C", "../..", "build", "OUT="+binary).CombinedOutput()
	require.NoError(t, err, "%s", out)

	file, err := elf.Open(binary)
	require.NoError(t, err)
	defer file.Close()
	for _, segment := range file.Progs {
		assert.NotEqual(t, elf.PT_INTERP, segment.Type)
	}
	libraries, err := file.ImportedLibraries()
	require.NoError(t, err)
	assert.Empty(t, libraries)

	info, err := buildinfo.ReadFile(binary)
	require.NoError(t, err)
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	assert.Equal(t, "true", settings["-trimpath"], "the paths of the machine that built it are in it")
}
