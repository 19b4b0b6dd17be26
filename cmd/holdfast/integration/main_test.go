package integration

import (
	"fmt"
	"os"
	"testing"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "holdfast-binary")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		err = testbed.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// unlessShort is the first amount, or the second under -short.
func unlessShort(full, short int) int {
	if testing.Short() {
		return short
	}
	return full
}
