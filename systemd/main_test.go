package systemd

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The test binary is also the child process of some tests.
var children = map[string]func() int{}

func TestMain(m *testing.M) {
	if child := children[os.Getenv("SYSTEMD_TEST_CHILD")]; child != nil {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}
