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

// The sockets of an instance that is upgraded: one of the socket unit, which are never
// stored, and own ones, which always are.
var (
	upgradedOwn = []string{"tcp://127.0.0.1:8081", "tcp://[::1]:8081", "unix:///run/holdfast/web.sock"}
	upgradedAll = append([]string{web}, upgradedOwn...)
)

// startUpgradable starts the service as it is shipped, with a watchdog in a hurry, as far as a busy host lets it,
// and tells when. Its connections end by themselves. settings are more lines of [Service].
func startUpgradable(g *vmtest.Guest, settings ...string) (since string) {
	since = g.Run("date", "+@%s.%N")
	g.Install(webToAppDraining(time.Hour, upgradedOwn...))
	g.DropIn(service, "[Service]\nWatchdogSec=12s\n"+strings.Join(settings, "\n")+"\n")
	g.StartEcho(app)
	g.Run("systemctl", "start", socketUnit, service)
	return since
}

// upgrade has another process take over, and tells which.
func upgrade(t *testing.T, g *vmtest.Guest) (pid string) {
	t.Helper()
	former := mainPID(g)
	said := g.Run("holdfast", "upgrade")
	pid = strconv.Itoa(g.Status().PID)
	assert.Equal(t, fmt.Sprintf("process %s has taken over from %s", pid, former), said)
	assertMain(t, g, pid)
	return pid
}

// assertMain: systemd, too, takes this process for the service, and has it as its child.
func assertMain(t *testing.T, g *vmtest.Guest, pid string) {
	t.Helper()
	assert.Equal(t, pid, mainPID(g))
	assert.Equal(t, "active", g.Property(service, "ActiveState"))
	assert.Equal(t, "running", g.Property(service, "SubState"))
	assert.Equal(t, "1", strings.TrimSpace(g.Run("ps", "-o", "ppid=", "-p", pid)))
}

func mainPID(g *vmtest.Guest) string { return g.Property(service, "MainPID") }

// processes are those of the service.
func processes(g *vmtest.Guest) []string {
	group := "/sys/fs/cgroup/system.slice/" + service + "/cgroup.procs"
	return strings.Fields(string(g.Try("cat", group).Stdout))
}

// assertNoComplaint: systemd has said nothing of the service that an upgrade is the cause
// of.
func assertNoComplaint(t *testing.T, g *vmtest.Guest, since string) {
	t.Helper()
	g.Run("journalctl", "--sync")
	said := g.Run("journalctl", "--quiet", "--output=cat", "--since="+since, "_PID=1", "UNIT="+service)
	assert.Contains(t, said, "Started "+service)
	for _, complaint := range []string{"not our child", "reception only permitted", "left-over", "does not exist"} {
		assert.NotContains(t, said, complaint)
	}
}

func TestAnUpgradeLosesNobodyAndStaysTheSameUnit(t *testing.T) {
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		since := startUpgradable(g)
		load := g.StartLoad(vmtest.Load{}, upgradedAll...)
		var pid string
		for range 3 {
			pid = upgrade(t, g)
			assertStored(t, g, len(upgradedOwn))
		}
		g.Await("the former end, as they have no connection", func() bool { return len(processes(g)) == 1 })
		time.Sleep(14 * time.Second) // more than one of the watchdog
		assertMain(t, g, pid)
		assert.Equal(t, "0", g.Property(service, "NRestarts"))

		g.Run("systemctl", "reload", service)
		assert.Equal(t, 5, g.Status().Generation)
		assertNoneLost(t, load.Stop())
		assert.Equal(t, []string{pid}, processes(g))
		assertStored(t, g, len(upgradedOwn))
		assertNoComplaint(t, g, since)

		load = g.StartLoad(vmtest.Load{}, upgradedAll...)
		restart(g)
		upgrade(t, g)
		restart(g)
		assertStored(t, g, len(upgradedOwn))
		assertNoneLost(t, load.Stop())
		upgrade(t, g)
		g.Run("systemctl", "stop", socketUnit, service)
		assert.Equal(t, "success", g.Property(service, "Result"))
		assert.Empty(t, processes(g))
		assert.Empty(t, string(g.Try("pidof", "holdfast").Stdout))
		assert.Zero(t, stored(t, g))
		assertNoComplaint(t, g, since)
		g.Run("systemctl", "start", socketUnit, service)
		assert.Empty(t, g.Call(upgradedAll...))
	})
}

// The draining process is not the service: that it runs on hides nothing. It drains as
// connections are not kept here.
func TestAfterAnUpgradeTheDeathOfTheNewProcessIsNoticed(t *testing.T) {
	const clients = 8
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		since := startUpgradable(g, "Environment=HOLDFAST_GLOBAL_KEEP=listeners")
		streams := g.StartLoad(vmtest.Load{Callers: -1}, upgradedAll...)
		upgrade(t, g)
		require.Len(t, processes(g), 2)
		load := g.StartLoad(vmtest.Load{Streams: -1, Patience: time.Minute}, upgradedAll...)
		g.Run("systemctl", "kill", "--kill-who=main", "--signal=KILL", service)
		g.AwaitUnit(service, "NRestarts", "1")
		awaitServing(g)
		upgrade(t, g)
		g.Run("systemctl", "kill", "--kill-who=main", "--signal=STOP", service)
		g.AwaitUnit(service, "NRestarts", "2") // by the watchdog
		awaitServing(g)
		assertStoredWithoutVault(t, g, len(upgradedOwn))
		assertNobodyRefused(t, load.Stop(), 2*clients)
		streams.Stop()
		assertNoComplaint(t, g, since)
	})
}

func TestAnUpgradeThatFailsChangesNothing(t *testing.T) {
	broken := []struct{ what, program, reason string }{
		{"it crashes", "#!/bin/sh\nkill -SEGV $$\n", "does not say why"},
		{"it does not run", "#!/nonexistent\n", "no such file or directory"},
		{"it is no program", "garbage", "exec format error"},
	}
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		since := startUpgradable(g)
		pid := mainPID(g)
		load := g.StartLoad(vmtest.Load{}, upgradedAll...)
		install := func(program string) {
			g.Write("/run/vmtest/new", program)
			g.Run("install", "-m", "755", "/run/vmtest/new", "/usr/bin/holdfast") // by another file, as packages do
		}
		fails := func(what, reason string) {
			r := g.Try("/run/vmtest/holdfast", "upgrade")
			assert.Equal(t, 1, r.Code, what)
			assert.Contains(t, string(r.Stderr), reason, what)
			assertMain(t, g, pid)
			g.Await("one process", func() bool { return len(processes(g)) == 1 })
			assertStored(t, g, len(upgradedOwn))
		}
		for _, b := range broken {
			install(b.program)
			fails(b.what, b.reason)
		}
		g.Run("rm", "/usr/bin/holdfast")
		fails("it is gone", "no such file or directory")
		g.Run("install", "-m", "755", "/run/vmtest/holdfast", "/usr/bin/holdfast")
		good := string(g.Read(vmtest.ConfigFile))
		g.Write(vmtest.ConfigFile, "[listener.web]\nupstraem = \"app\"\n")
		fails("the configuration is refused", "upstraem")
		g.Write(vmtest.ConfigFile, good)

		assert.Equal(t, "0", g.Property(service, "NRestarts"))
		upgrade(t, g)
		assertNoneLost(t, load.Stop())
		assertNoComplaint(t, g, since)
	})
}

// Of a package upgrade: the file is another one, and the process that runs is of the
// deleted one.
func TestAnUpgradeStartsWhatIsInstalledNow(t *testing.T) {
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		startUpgradable(g)
		load := g.StartLoad(vmtest.Load{}, upgradedAll...)
		for range 2 {
			g.Run("install", "-m", "755", "/run/vmtest/holdfast", "/usr/bin/holdfast.new")
			g.Run("mv", "/usr/bin/holdfast.new", "/usr/bin/holdfast")
			assert.Contains(t, g.Run("readlink", procFile(g, "exe")), "(deleted)")
			upgrade(t, g)
			assert.Equal(t, "/usr/bin/holdfast", g.Run("readlink", procFile(g, "exe")))
		}
		assertNoneLost(t, load.Stop())
	})
}
