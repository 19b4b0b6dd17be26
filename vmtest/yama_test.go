package vmtest_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

const (
	yama    = "kernel.yama.ptrace_scope"
	hungRun = "/run/holdfast" // of both instances
)

// setYama changes who may take descriptors of whom, until the end of the scenario.
func setYama(t *testing.T, g *vmtest.Guest) (set func(scope string)) {
	t.Helper()
	before := g.Try("sysctl", "--values", yama)
	if before.Code != 0 && os.Getenv("VMTEST_DRIVER") == "nspawn" {
		t.Skip("NOT RUN in nspawn: " + yama + " is the host's")
	}
	require.Zero(t, before.Code, string(before.Stderr))
	set = func(scope string) { g.Run("sysctl", "--quiet", "--write", yama+"="+scope) }
	t.Cleanup(func() { set(strings.TrimSpace(string(before.Stdout))) })
	return set
}

// serveArgs is an instance that runs as the service's user, without any right more.
func serveArgs(more ...string) []string {
	args := []string{"setpriv", "--reuid=holdfast", "--regid=holdfast", "--init-groups"}
	args = append(args, "env", "RUNTIME_DIRECTORY="+hungRun, "holdfast", "serve")
	return append(args, more...)
}

// startHung starts an instance and stops it, and a client whose connection the kernel has
// completed then.
func startHung(g *vmtest.Guest) {
	g.Run("install", "-d", "-m", "700", "-o", "holdfast", "-g", "holdfast", hungRun)
	g.StartUnit("hung", serveArgs("--takeover=never")...)
	awaitServing(g)
	g.Run("systemctl", "kill", "--signal=STOP", "vmtest-hung.service")
	startCalls(g, web)
	awaitQueues(g, 1, 1)
}

func endHung(g *vmtest.Guest, units ...string) {
	for _, unit := range append(units, "hung", "calls") {
		g.Try("systemctl", "kill", "--signal=KILL", "vmtest-"+unit+".service")
		g.Try("systemctl", "stop", "vmtest-"+unit+".service")
		g.Try("systemctl", "reset-failed", "vmtest-"+unit+".service")
	}
}

func TestWhoMayTakeOverFromAnInstanceThatHangs(t *testing.T) {
	tries := []struct {
		what, scope string
		capability  bool
		hint        string // "" = it may
	}{
		{"the same user", "0", false, ""},
		{"the same user, where only ancestors may", "1", false, yama},
		{"with the capability, where only ancestors may", "1", true, ""},
		{"the same user, where the capability is needed", "2", false, yama},
		{"with the capability", "2", true, ""},
	}
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		set := setYama(t, g)
		g.Install(webToAppDraining(time.Minute, web))
		g.StartEcho(app)
		for _, try := range tries {
			set(try.scope)
			startHung(g)
			args := serveArgs("--takeover=always")
			if try.capability {
				args = append([]string{"setpriv", "--inh-caps=+sys_ptrace", "--ambient-caps=+sys_ptrace"}, args[1:]...)
			}
			if try.hint != "" {
				r := g.Try(args...)
				assert.NotZero(t, r.Code, try.what)
				assert.Contains(t, string(r.Stderr), try.hint, try.what)
				assert.Contains(t, string(r.Stderr), "hint: run as root, or with CAP_SYS_PTRACE", try.what)
				assert.Equal(t, "active", g.Property("vmtest-hung.service", "ActiveState"), "it is not killed: %s", try.what)
				g.Run("systemctl", "kill", "--signal=CONT", "vmtest-hung.service")
				g.AwaitUnit("vmtest-calls.service", "ActiveState", "active")
				endHung(g)
				continue
			}
			g.StartUnit("next", args...)
			g.AwaitUnit("vmtest-calls.service", "ActiveState", "active")
			assert.NotEqual(t, "active", g.Property("vmtest-hung.service", "ActiveState"), "it was killed: %s", try.what)
			for _, s := range g.Status().Listeners.Sockets {
				assert.Equal(t, "pidfd", s.Origin, try.what)
			}
			endHung(g, "next")
		}
	})
}
