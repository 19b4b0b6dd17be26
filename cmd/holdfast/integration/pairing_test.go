package integration

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// pairing is a listener of one kind before a server of one kind. The test holds
// both ends of each connection through it.
type pairing struct {
	name     string // "TCP-Unix" has a TCP listener and a Unix server
	route    testbed.Route
	accepted chan stream // by the server
}

// pairings makes a route for each pair of kinds.
func pairings(t testing.TB, purpose string) []pairing {
	t.Helper()
	dir := testbed.Dir(t)
	var pairs []pairing
	for _, listener := range []string{"TCP", "Unix"} {
		for _, server := range []string{"TCP", "Unix"} {
			name := listener + "-" + server
			address := func(kind, end string) string {
				if kind == "TCP" {
					return testbed.TCP(t)
				}
				return "unix://" + filepath.Join(dir, name+"."+end)
			}
			p := pairing{
				name: name,
				route: testbed.Route{
					Name:    purpose + "-" + name,
					Listen:  []string{address(listener, "listen")},
					Servers: []string{address(server, "server")},
				},
				accepted: make(chan stream, 1024),
			}
			serveTo(t, p.route.Servers[0], p.accepted)
			pairs = append(pairs, p)
		}
	}
	return pairs
}

// routes are the routes of all pairs.
func routes(pairs []pairing) []testbed.Route {
	all := make([]testbed.Route, len(pairs))
	for i, p := range pairs {
		all[i] = p.route
	}
	return all
}

// serveTo hands each connection to the test, which closes it.
func serveTo(t testing.TB, address string, accepted chan<- stream) {
	t.Helper()
	listen(t, address, func(conn stream) {
		_ = conn.SetDeadline(time.Now().Add(patience))
		accepted <- conn
		<-t.Context().Done()
	})
}

// open makes one connection through the proxy and returns its ends.
func (p pairing) open(t testing.TB) (client, server stream) {
	t.Helper()
	for len(p.accepted) > 0 { // of a test that failed
		_ = (<-p.accepted).Close()
	}
	client = dial(t, p.route.Listen[0])
	return client, next(t, p.accepted)
}

// next waits for the server's next connection.
func next(t testing.TB, accepted <-chan stream) stream {
	t.Helper()
	select {
	case conn := <-accepted:
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	case <-time.After(patience):
		require.FailNow(t, "the server got no connection")
		return nil
	}
}
