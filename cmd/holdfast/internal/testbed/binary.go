package testbed

import (
	"fmt"
	"os"
)

// WithBinary builds Holdfast for the tests that run starts, removes it afterwards,
// and returns their exit code; 1 if it does not build.
func WithBinary(run func() int) int {
	dir, err := os.MkdirTemp("", "holdfast-binary")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		err = Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return run()
}
