// Package socktest fails the tests of a package that leaks descriptors.
package socktest

import (
	"fmt"
	"os"
	"testing"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// Run runs the tests and tells their exit code. A test run that leaves a
// sock.FD open fails, and prints where it was opened:
//
//	func TestMain(m *testing.M) { os.Exit(socktest.Run(m)) }
func Run(m *testing.M) int {
	leaked := sock.TraceLeaks()
	code := m.Run()
	for _, stack := range leaked() {
		fmt.Fprintf(os.Stderr, "descriptor leaked, opened by:\n%s\n", stack)
		code = 1
	}
	return code
}
