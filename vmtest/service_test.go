package vmtest_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/vmtest"
	"github.com/holdfast-proxy/holdfast/vmtest/wire"
)

const service = "holdfast.service"

// listeners is a configuration of listeners to app, each as its name and its
// addresses: "web tcp://127.0.0.1:80 tcp://[::1]:80".
func listeners(drain time.Duration, list ...string) string {
	config := fmt.Sprintf("[global]\ndrain_timeout = %q\n[upstream.app]\nservers = %q\n", drain, app)
	for _, l := range list {
		words := strings.Fields(l)
		config += fmt.Sprintf("[listener.%s]\nupstream = \"app\"\nlisten = [\"%s\"]\n", words[0], strings.Join(words[1:], `", "`))
	}
	return config
}

// reload puts another configuration into service.
func reload(g *vmtest.Guest, config string) {
	g.Write(vmtest.ConfigFile, config)
	g.Run("systemctl", "reload", service)
}

func restart(g *vmtest.Guest) { g.Run("systemctl", "restart", service) }

func kill(g *vmtest.Guest) { g.Run("systemctl", "kill", "--signal=KILL", service) }

// assertSockets: the generation in service is this one, now, and in a moment its
// sockets are these, each as "tcp 127.0.0.1:80 active bind [1 2]". Connections that
// are just ending keep their generation in the list until then. It returns the status.
func assertSockets(t *testing.T, g *vmtest.Guest, generation int, sockets ...string) vmtest.Status {
	t.Helper()
	s := g.Status()
	require.Equal(t, generation, s.Generation)
	assert.Equal(t, "running", s.State)
	assert.Equal(t, "systemd", s.Holder)
	slices.Sort(sockets)
	defer func() { assert.Equal(t, sockets, socketLines(s)) }() // says what is instead
	g.Await("the sockets", func() bool {
		s = g.Status()
		return slices.Equal(sockets, socketLines(s))
	})
	return s
}

func socketLines(s vmtest.Status) []string {
	var lines []string
	for _, l := range s.Listeners.Sockets {
		lines = append(lines, fmt.Sprintf("%s %s %s %v", l.Socket, l.State, l.Origin, l.Generations))
	}
	slices.Sort(lines)
	return lines
}

// allActive are the lines of sockets that only one generation has.
func allActive(origin string, generation int, addresses ...string) []string {
	return allWith(fmt.Sprintf("active %s [%d]", origin, generation), addresses...)
}

// allWith are the lines of sockets that end alike.
func allWith(end string, addresses ...string) []string {
	var lines []string
	for _, address := range addresses {
		lines = append(lines, strings.NewReplacer("tcp://", "tcp ", "unix://", "unix ").Replace(address)+" "+end)
	}
	return lines
}

// awaitServing waits for a process that answers.
func awaitServing(g *vmtest.Guest) {
	g.Await("a process that answers", func() bool { return g.Try("holdfast", "status").Code == 0 })
}

// startCalls calls addresses that may not answer yet. The unit vmtest-calls is active
// when each has.
func startCalls(g *vmtest.Guest, addresses ...string) {
	args := []string{"--no-block", "--service-type=oneshot", "--remain-after-exit", wire.Program, "call"}
	g.StartUnit("calls", append(args, addresses...)...)
}

// awaitQueues waits until so many clients are in the accept queues of so many sockets.
func awaitQueues(g *vmtest.Guest, sockets, clients int) {
	g.Await("full queues", func() bool {
		found := 0
		for line := range strings.Lines(g.Run("ss", "-lntxH")) {
			if received := strings.Fields(line)[2]; received == strconv.Itoa(clients) {
				found++
			}
		}
		return found == sockets
	})
}

// assertRefused: nobody listens there any more.
func assertRefused(t *testing.T, g *vmtest.Guest, address, when string) {
	t.Helper()
	assert.Regexp(t, "connection refused|no such file", g.Call(address), when)
}

// stored is how many descriptors systemd keeps for the service.
func stored(t *testing.T, g *vmtest.Guest) int {
	t.Helper()
	n, err := strconv.Atoi(g.Property(service, "NFileDescriptorStore"))
	require.NoError(t, err)
	return n
}

// assertStored: systemd keeps the sockets that the status names as own ones, one
// descriptor for the configuration, and those of the vault, which come and go by two.
func assertStored(t *testing.T, g *vmtest.Guest, sockets int) {
	t.Helper()
	g.Await(fmt.Sprintf("%d sockets and what goes with them in the store", sockets), func() bool {
		return isStored(stored(t, g), sockets)
	})
}

// assertStoredWithoutVault: likewise, where connections are not kept.
func assertStoredWithoutVault(t *testing.T, g *vmtest.Guest, sockets int) {
	t.Helper()
	assert.Equal(t, sockets+1, stored(t, g), "descriptors in the store")
}

// isStored tells whether so many descriptors can be those of so many sockets, the
// configuration and the vault, which has a table and two for each of its segments.
func isStored(descriptors, sockets int) bool {
	const fewest, most = 1, 16 // segments
	vault := descriptors - sockets - 1
	return vault%2 == 1 && vault >= 1+2*fewest && vault <= 1+2*most
}

// assertLogged: the service has said so, with this priority.
func assertLogged(t *testing.T, g *vmtest.Guest, priority, text string) {
	t.Helper()
	var said []string
	for _, entry := range g.Journal(service, "PRIORITY="+priority) {
		said = append(said, entry["MESSAGE"])
		if strings.Contains(entry["MESSAGE"], text) {
			return
		}
	}
	assert.Failf(t, "not logged", "%q is not in:\n%s", text, strings.Join(said, "\n"))
}
