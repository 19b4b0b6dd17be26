package activation_test

import (
	"math"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock/socktest"
)

// The test binary is also the child process of some tests.
var children = map[string]func() int{}

func TestMain(m *testing.M) {
	if child := children[os.Getenv("ACTIVATION_TEST_CHILD")]; child != nil {
		os.Exit(child())
	}
	// Descriptors that whoever runs the tests left open must not reach a child.
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		panic(err)
	}
	os.Exit(socktest.Run(m))
}
