package vmtest_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/vmtest"
	"github.com/holdfast-proxy/holdfast/vmtest/wire"
)

const group = "/sys/fs/cgroup/system.slice/" + service // its control group

// crashes end the main process from outside. ABRT and SEGV end a Go program as a panic
// does. The control group of the next process has the limit of the unit again.
var crashes = []struct{ result, command string }{
	{"exit-code", "systemctl kill --kill-who=main --signal=ABRT " + service},
	{"exit-code", "systemctl kill --kill-who=main --signal=SEGV " + service},
	{"signal", "systemctl kill --kill-who=main --signal=KILL " + service},
	{"signal", lackOfMemory},
}

const lackOfMemory = "echo 1M >" + group + "/memory.max"

// lendsMemory tells whether the guest's host lets it limit the memory of a service.
func lendsMemory(t *testing.T, g *vmtest.Guest) bool {
	t.Helper()
	if g.Try("test", "-e", group+"/memory.max").Code == 0 {
		return true
	}
	t.Log("no lack of memory: this host lends no memory controller")
	return false
}

// The watchdog is in TestAServiceThatHangsIsReplacedAndWhoWaitedIsServed.
func TestConnectionsOutliveACrashAndTheLackOfMemory(t *testing.T) {
	const streams = 10
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToApp(ownSockets...))
		g.StartEcho(app)
		g.Run("systemctl", "start", service)
		load := g.StartLoad(vmtest.Load{Streams: streams, Callers: -1, Beat: time.Second, Patience: time.Minute}, ownSockets...)
		for i, c := range crashes {
			if c.command == lackOfMemory && !lendsMemory(t, g) {
				continue
			}
			since := g.Run("date", "+@%s.%N")
			g.Run("sh", "-c", c.command)
			g.AwaitUnit(service, "NRestarts", strconv.Itoa(i+1))
			g.Run("systemctl", "start", service) // which systemd is about to do, or has done
			awaitAllKept(t, g, streams*len(ownSockets))
			g.Run("journalctl", "--sync")
			said := g.Run("journalctl", "--quiet", "--output=cat", "--since="+since, "_PID=1", "UNIT="+service)
			assert.Contains(t, said, "Failed with result '"+c.result+"'", c.command)
		}
		assertNoneLost(t, load.Stop())
	})
}

// The process of the service that the kernel chooses is another one, as that of an upgrade
// may be.
func TestALackOfMemoryThatEndsAnotherProcessOfTheServiceEndsNothingElse(t *testing.T) {
	const glutton = `echo 0 >` + group + `/cgroup.procs
echo 1000 >/proc/self/oom_score_adj
tail /dev/zero`
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToApp(ownSockets...))
		g.StartEcho(app)
		g.Run("systemctl", "start", service)
		if !lendsMemory(t, g) {
			return
		}
		main := g.Property(service, "MainPID")
		load := g.StartLoad(vmtest.Load{}, ownSockets...)
		g.Run("sh", "-c", "echo 128M >"+group+"/memory.max")
		assert.Equal(t, 137, g.Try("sh", "-c", glutton+"\nexit $?").Code, "it is killed")
		g.Run("journalctl", "--sync")
		assert.Contains(t, g.Run("grep", "^oom_kill ", group+"/memory.events"), "oom_kill 1")
		assertMain(t, g, main)
		assertNoneLost(t, load.Stop())
	})
}

func TestPeersThatEndWhileNothingRunsAreSeenToHaveDoneSo(t *testing.T) {
	const server = "tcp://127.0.0.1:9001"
	const config = `
[listener.peers]
upstream = "peers"
listen = ["tcp://127.0.0.1:8080", "unix:///run/holdfast/web.sock"]
[upstream.peers]
servers = "` + server + `"
`
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(config)
		g.Run("systemctl", "start", service)
		g.StartUnit("peers", "--service-type=notify", wire.Program, "peers", server, "tcp://127.0.0.1:8080", "unix:///run/holdfast/web.sock")
		kept := g.Status().Connections.Kept
		require.Equal(t, 12, kept)
		g.Run("systemctl", "kill", "--signal=STOP", service)
		g.Run("systemctl", "kill", "--signal=USR1", "vmtest-peers.service")
		g.AwaitUnit("vmtest-peers.service", "StatusText", "ended")
		killAndAwait(g, 1)
		g.Run("systemctl", "stop", "vmtest-peers.service")
		assert.Equal(t, "success", g.Property("vmtest-peers.service", "Result"))
		g.Await("no connection", func() bool { return g.Status().Connections.Active == 0 })
		assert.Zero(t, g.Status().Connections.Lost)
	})
}
