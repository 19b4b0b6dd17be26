package systemd

import (
	"os"
	"testing"

	"github.com/holdfast-proxy/holdfast/proxy/leaktest"
)

// The test binary is also the child process of some tests.
var children = map[string]func() int{}

func TestMain(m *testing.M) {
	if child := children[os.Getenv("SYSTEMD_TEST_CHILD")]; child != nil {
		os.Exit(child())
	}
	leaktest.Main(m)
}
