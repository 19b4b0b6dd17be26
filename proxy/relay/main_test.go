package relay

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails the run when a descriptor or a goroutine outlives the tests.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		for _, fd := range descriptors() {
			if !inherited[fd] && (strings.Contains(fd, "socket:") || strings.Contains(fd, "pipe:")) {
				fmt.Fprintln(os.Stderr, "descriptor left open:", fd)
				code = 1
			}
		}
		os.Exit(code)
	}))
}

// inherited is what the process was started with.
var inherited = func() map[string]bool {
	set := map[string]bool{}
	for _, fd := range descriptors() {
		set[fd] = true
	}
	return set
}()

// descriptors lists what is open, as "7 socket:[4711]".
func descriptors() []string {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	var open []string
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			open = append(open, e.Name()+" "+to)
		}
	}
	return open
}
