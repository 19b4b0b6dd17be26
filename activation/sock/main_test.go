package sock_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock/socktest"
)

// The test binary is also the child process of some tests.
var children = map[string]func() int{}

func TestMain(m *testing.M) {
	if child := children[os.Getenv("SOCK_TEST_CHILD")]; child != nil {
		os.Exit(child())
	}
	unix.Umask(0o077) // strict, so that a mode that leans on the umask shows
	os.Exit(socktest.Run(m))
}
