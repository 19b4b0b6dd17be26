package relay

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails the run when a descriptor or a goroutine outlives the tests.
func TestMain(m *testing.M) {
	before := openDescriptors()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if after := openDescriptors(); code == 0 && after > before {
			fmt.Fprintf(os.Stderr, "%d descriptors before the tests, %d after\n", before, after)
			code = 1
		}
		os.Exit(code)
	}))
}

func openDescriptors() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	n := 0
	for _, e := range entries {
		// The runtime's own epoll and eventfd appear with the first network call.
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && to[0] != 'a' {
			n++
		}
	}
	return n
}
