package handover

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-proxy/holdfast/activation/sock/socktest"
)

// The test binary is also the other process of some tests.
var children = map[string]func() int{}

const childVariable = "HANDOVER_TEST_CHILD"

func TestMain(m *testing.M) {
	if child := children[os.Getenv(childVariable)]; child != nil {
		os.Exit(child())
	}
	before := openDescriptors()
	code := socktest.Run(m)
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if after := openDescriptors(); after != before {
		fmt.Fprintf(os.Stderr, "%d descriptors are open, at the start there were %d\n", after, before)
		code = 1
	}
	os.Exit(code)
}

// openDescriptors is how many there are in this process, with those that os.File
// owns and no sock.FD knows.
func openDescriptors() int {
	r, w, err := os.Pipe() // the runtime opens its own epoll instance with the first one
	if err != nil {
		panic(err)
	}
	_, _ = r.Close(), w.Close()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	return len(entries)
}
