package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/proxy/config"
)

var tomlBlock = regexp.MustCompile("(?s)```toml\n(.*?)```")

func TestConfigsInTheDocumentsAreValid(t *testing.T) {
	for _, file := range documents(t) {
		for _, block := range tomlBlock.FindAllStringSubmatch(read(t, file), -1) {
			_, err := config.Parse(file+".toml", []byte(block[1]), nil, config.Overrides{})
			assert.NoError(t, err, "in %s:\n%s", file, block[1])
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)

func TestLinksInTheDocumentsLeadSomewhere(t *testing.T) {
	for _, file := range documents(t) {
		for _, to := range link.FindAllStringSubmatch(read(t, file), -1) {
			assert.FileExists(t, filepath.Join(filepath.Dir(file), to[1]), "linked from %s", file)
		}
	}
}

func TestEveryPackageIsInTheArchitecture(t *testing.T) {
	text := read(t, "../../docs/architecture.md")
	for _, root := range []string{"../../activation", "../../fdstore", "../../proxy", "../../systemd"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			source, _ := filepath.Glob(path + "/*.go")
			if err != nil || len(source) == 0 || strings.HasSuffix(path, "test") {
				return err
			}
			name := strings.TrimPrefix(path, "../../")
			assert.Contains(t, text, "`"+name+"`", "docs/architecture.md does not say what is in it")
			return nil
		}))
	}
}

func documents(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	return append(files, "../../README.md")
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(b)
}
