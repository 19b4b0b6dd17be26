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
	os.Exit(testbed.WithBinary(func() int {
		code := m.Run()
		results.print(os.Stdout)
		return code
	}))
}
