package vmtest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/vmtest/machine"
	"github.com/holdfast-proxy/holdfast/vmtest/wire"
)

// patience is for what happens in the guest by itself, and for a command there.
const patience = time.Minute

// Guest is a machine as one scenario sees it. Its methods end the scenario as
// failed when the machine or what is asked of it fails.
type Guest struct {
	t       *testing.T
	machine *machine.Machine
	Systemd int      // version in this machine
	began   string   // in seconds since 1970, by the guest's clock
	written []string // files to remove at the end
	loads   int      // started so far
	stale   bool     // unit files changed since systemd read them
}

func newGuest(t *testing.T, s *slot) *Guest {
	t.Helper()
	m := s.running
	g := &Guest{t: t, machine: m, Systemd: s.systemd}
	t.Cleanup(func() {
		if t.Failed() && m.Alive() {
			g.diagnose()
		}
		if m.Alive() {
			g.clean()
		}
		if !m.Alive() {
			t.Errorf("the machine is gone, the next scenario gets another; its console:\n%s", m.Console())
		}
	})
	g.began = g.Run("date", "+%s.%N")
	g.stale = true // the last scenario's were removed
	return g
}

// Run runs a command that must succeed. It returns what that printed on stdout,
// without the newline at the end.
func (g *Guest) Run(args ...string) string {
	g.t.Helper()
	return g.runWithin(patience, args...)
}

func (g *Guest) runWithin(most time.Duration, args ...string) string {
	g.t.Helper()
	r := g.tryWithin(most, args...)
	if r.Code != 0 {
		g.t.Fatalf("%s: exit code %d\n%s%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	}
	return strings.TrimSuffix(string(r.Stdout), "\n")
}

// Try runs a command that may fail, but must end. Before it, systemd reads unit
// files that were written since the last one.
func (g *Guest) Try(args ...string) wire.Result {
	g.t.Helper()
	return g.tryWithin(patience, args...)
}

func (g *Guest) tryWithin(most time.Duration, args ...string) wire.Result {
	g.t.Helper()
	if g.stale {
		g.stale = false
		g.Run("systemctl", "daemon-reload")
	}
	r, err := g.machine.Run(context.Background(), wire.Command{Args: args, Timeout: most})
	require.NoError(g.t, err, strings.Join(args, " "))
	if r.TimedOut {
		g.t.Fatalf("%s: no end within %v\n%s%s", strings.Join(args, " "), most, r.Stdout, r.Stderr)
	}
	return r
}

// Write makes a file with the folders above it. It is removed after the scenario.
func (g *Guest) Write(path, content string) {
	g.t.Helper()
	g.stale = g.stale || strings.Contains(path, "/systemd/system/")
	g.written = append(g.written, path)
	require.NoError(g.t, g.machine.Put(context.Background(), wire.File{Path: path, Content: []byte(content), Mode: 0o644}))
}

// Read returns the content of a file.
func (g *Guest) Read(path string) []byte {
	g.t.Helper()
	f, err := g.machine.Get(context.Background(), path)
	require.NoError(g.t, err)
	return f.Content
}

// Await waits until a condition holds.
func (g *Guest) Await(what string, holds func() bool) {
	g.t.Helper()
	g.AwaitWithin(patience, what, holds)
}

// AwaitWithin is for what takes longer, and looks at it more seldom.
func (g *Guest) AwaitWithin(most time.Duration, what string, holds func() bool) {
	g.t.Helper()
	for end := time.Now().Add(most); !holds(); time.Sleep(most / 1000) {
		if time.Now().After(end) {
			g.t.Fatalf("%s: not so after %v", what, most)
		}
	}
}

// AwaitUnit waits until a property of a unit, as systemctl show has it, is value.
func (g *Guest) AwaitUnit(unit, property, value string) {
	g.t.Helper()
	g.Await(unit+" "+property+"="+value, func() bool { return g.Property(unit, property) == value })
}

// StartUnit starts a command as the unit vmtest-NAME, which is stopped after the
// scenario. Options of systemd-run(1) may stand before the command.
func (g *Guest) StartUnit(name string, args ...string) {
	g.t.Helper()
	g.Run(append([]string{"systemd-run", "--quiet", "--unit=vmtest-" + name}, args...)...)
}

// Property is a property of a unit, as systemctl show has it.
func (g *Guest) Property(unit, property string) string {
	g.t.Helper()
	return g.Run("systemctl", "show", "--value", "--property="+property, unit)
}
