// Package leaktest fails the tests of a package that leave a goroutine or a
// descriptor open. It is for tests only and depends on nothing of ours.
//
//	func TestMain(m *testing.M) { leaktest.Main(m) }
package leaktest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests and ends the process with their exit code, or with 1 when
// they passed and left something behind: a goroutine, after a moment in which it
// may still end, or a socket, pipe or epoll instance.
func Main(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		for _, fd := range Opened(inherited) {
			if !strings.Contains(fd, " /") { // files are the test runner's: its log, profiles
				fmt.Fprintln(os.Stderr, "descriptor left open:", fd)
				code = 1
			}
		}
		os.Exit(code)
	}))
}

// inherited is what the process had before the first test.
var inherited = func() map[string]bool {
	// The runtime opens its own epoll instance and event descriptor with the first
	// pipe or socket, and never closes them.
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	_, _ = r.Close(), w.Close()
	return Descriptors()
}()

// Descriptors lists what is open in this process, as "7 socket:[4711]" or
// "8 /dev/null".
func Descriptors() map[string]bool {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	open := make(map[string]bool, len(entries))
	for _, e := range entries {
		// It fails for the descriptor by which the list was read.
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			open[e.Name()+" "+to] = true
		}
	}
	return open
}

// Opened lists what is open now and was not among the descriptors before.
func Opened(before map[string]bool) []string {
	var opened []string
	for fd := range Descriptors() {
		if !before[fd] {
			opened = append(opened, fd)
		}
	}
	return opened
}
