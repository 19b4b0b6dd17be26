package fdstore_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-proxy/holdfast/activation/sock/socktest"
)

// The test binary is also the child process of some tests.
var children = map[string]func() int{}

const childVariable = "FDSTORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if child := children[os.Getenv(childVariable)]; child != nil {
		os.Exit(child())
	}
	code := socktest.Run(m)
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
