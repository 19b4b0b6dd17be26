package vault_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-proxy/holdfast/activation/sock/socktest"
)

// The test binary is also the child process of some tests.
var children = map[string]func() error{}

const childVariable = "VAULT_TEST_CHILD"

func TestMain(m *testing.M) {
	if child := children[os.Getenv(childVariable)]; child != nil {
		if err := child(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if flag.Parse(); flag.Lookup("test.bench").Value.String() != "" {
		os.Exit(m.Run()) // to note where each descriptor was opened takes longer than what is measured
	}
	before := descriptors()
	code := socktest.Run(m)
	for fd, link := range descriptors() {
		if before[fd] == "" {
			fmt.Fprintln(os.Stderr, "descriptor left open:", fd, link)
			code = 1
		}
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// descriptors are the sockets and memfds of this process, by number. The runtime's own
// and the test runner's are other files.
func descriptors() map[string]string {
	found := map[string]string{}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		link, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && (strings.HasPrefix(link, "socket:") || strings.HasPrefix(link, "/memfd:")) {
			found[e.Name()] = link
		}
	}
	return found
}
