package bench

import (
	"fmt"
	"os"
	"testing"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := play(role); err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			os.Exit(1)
		}
		return
	}
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
	code := m.Run()
	results.print(os.Stdout)
	return code
}
