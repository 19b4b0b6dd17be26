package vmtest_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

// usage is what a service has at a time.
type usage struct {
	descriptors, threads, processes, stored int
	memory                                  int // resident, in KiB
}

func usageOf(t *testing.T, g *vmtest.Guest) usage {
	t.Helper()
	const script = `ls /proc/$1/fd | wc -l
ls /proc/$1/task | wc -l
wc -l </sys/fs/cgroup/system.slice/holdfast.service/cgroup.procs
sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' /proc/$1/status`
	var numbers []int
	for _, word := range strings.Fields(g.Run("sh", "-c", script, "sh", strconv.Itoa(g.Status().PID))) {
		n, err := strconv.Atoi(word)
		require.NoError(t, err)
		numbers = append(numbers, n)
	}
	require.Len(t, numbers, 4)
	return usage{numbers[0], numbers[1], numbers[2], stored(t, g), numbers[3]}
}

// Every second reload binds a socket, every other one drains it, and both change the
// upstream. The file of the socket tells when.
func TestManyReloadsLeaveNothingBehind(t *testing.T) {
	const warmUp, reloads = 20, 200
	const other, path = "tcp://127.0.0.1:9001", "/run/holdfast/more.sock"
	const script = `for i in $(seq $2); do
	echo "$B" >/etc/holdfast/holdfast.toml
	kill -HUP $1
	until [ -e $3 ]; do sleep 0.01; done
	echo "$A" >/etc/holdfast/holdfast.toml
	kill -HUP $1
	while [ -e $3 ]; do sleep 0.01; done
done`
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		one := staying(time.Second)
		two := strings.ReplaceAll(staying(time.Second, "more unix://"+path), app, other)
		g.Install(one)
		g.StartEcho(app, other)
		g.Run("systemctl", "start", service)
		pid := strconv.Itoa(g.Status().PID)
		load := g.StartLoad(vmtest.Load{}, stays, staysPath)
		generation := 1
		reloading := func(times int) usage {
			g.StartUnit("reloads", "--no-block", "--service-type=oneshot", "--remain-after-exit", "--setenv=A="+one, "--setenv=B="+two,
				"sh", "-c", script, "sh", pid, strconv.Itoa(times/2), path)
			generation += times
			g.AwaitWithin(5*time.Minute, "the last reload", func() bool { return g.Status().Generation >= generation })
			g.AwaitUnit("vmtest-reloads.service", "ActiveState", "active")
			g.Run("systemctl", "stop", "vmtest-reloads.service")
			assertSockets(t, g, generation, withStaying(generation)...)
			return usageOf(t, g)
		}
		began := reloading(warmUp)
		now := reloading(reloads)
		t.Logf("%+v, after %d reloads %+v", began, reloads, now)
		assert.InDelta(t, began.descriptors, now.descriptors, 8, "clients come and go")
		assert.InDelta(t, began.threads, now.threads, 3)
		assert.Equal(t, began.processes, now.processes)
		assert.Zero(t, (now.stored-began.stored)%2, "no socket; the vault grows and shrinks by two")
		assert.InDelta(t, began.stored, now.stored, 8)
		assert.Less(t, now.memory, began.memory+20<<10)
		assertNoneLost(t, load.Stop())
	})
}

func TestReloadsAtOnceAllSucceed(t *testing.T) {
	const each = 10
	const script = `for i in $(seq $1); do
	systemctl reload holdfast & pids="$pids $!"
	holdfast reload & pids="$pids $!"
	systemctl kill --signal=HUP --kill-who=main holdfast & pids="$pids $!"
done
for pid in $pids; do wait $pid || exit 1; done`
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(staying(time.Minute))
		g.StartEcho(app)
		g.Run("systemctl", "start", service)
		load := g.StartLoad(vmtest.Load{}, stays, staysPath)
		g.Write(vmtest.ConfigFile, staying(time.Minute, "more tcp://127.0.0.1:8081"))
		g.Run("sh", "-c", script, "sh", strconv.Itoa(each))
		var last int
		g.Await("the last of them", func() bool {
			before := last
			last = g.Status().Generation
			return last == before
		})
		// systemd makes one of jobs that wait, as does the signal.
		assert.GreaterOrEqual(t, last, 1+each)
		assert.LessOrEqual(t, last, 1+3*each)
		assertSockets(t, g, last, withStaying(last, fmt.Sprintf("tcp 127.0.0.1:8081 active bind [%d]", last))...)
		assertStored(t, g, 3)
		assert.Equal(t, "active", g.Property(service, "ActiveState"))
		assertNoneLost(t, load.Stop())
		assert.Empty(t, g.Journal(service, "PRIORITY=3", "PRIORITY=4"))
	})
}

func TestAThousandListeners(t *testing.T) {
	const listenerCount = 1000
	var all, addresses []string
	for i := range listenerCount {
		address := fmt.Sprintf("tcp://127.0.0.1:%d", 20_000+i)
		addresses = append(addresses, address)
		all = append(all, fmt.Sprintf("l%d %s", i, address))
	}
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(staying(time.Minute))
		g.StartEcho(app)
		g.Run("systemctl", "start", service)
		load := g.StartLoad(vmtest.Load{Streams: -1}, stays, staysPath)
		timed := func(what string, step func()) {
			began := time.Now()
			step()
			t.Logf("%s: %v", what, time.Since(began).Round(time.Millisecond))
		}
		timed("reload that adds 1000", func() { reload(g, staying(time.Minute, all...)) })
		assertStored(t, g, 2+listenerCount)
		assert.Empty(t, g.Call(addresses...))
		timed("reload that keeps 1000", func() { reload(g, staying(time.Minute, all...)) })
		timed("restart", func() { restart(g) })
		s := g.Status()
		assert.Equal(t, 3, s.Generation)
		assert.Len(t, s.Listeners.Sockets, 2+listenerCount)
		for _, l := range s.Listeners.Sockets {
			require.Equal(t, "store", l.Origin, l.Socket)
		}
		assert.Empty(t, g.Call(addresses...))
		timed("reload that drops 999", func() { reload(g, staying(time.Minute, all[0])) })
		assertSockets(t, g, 4, allActive("store", 4, stays, staysPath, addresses[0])...)
		assertStored(t, g, 3)
		assertRefused(t, g, addresses[listenerCount-1], "removed")
		assertNoneLost(t, load.Stop())
	})
}
