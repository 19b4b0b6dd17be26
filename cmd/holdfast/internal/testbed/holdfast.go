package testbed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// Binary is the holdfast under test; Build sets it.
var Binary string

// Build builds holdfast into dir, once, for TestMain, with the race detector if
// the test has it. TESTBED_HOLDFAST names a
// binary to test instead, for example the one of a package. (Variables that begin
// with HOLDFAST_ are Holdfast's own config.)
func Build(dir string) error {
	if Binary = os.Getenv("TESTBED_HOLDFAST"); Binary != "" {
		return nil
	}
	Binary = filepath.Join(dir, "holdfast")
	args := []string{"build", "-o", Binary}
	if raceEnabled {
		args = append(args, "-race")
	}
	args = append(args, "github.com/holdfast-proxy/holdfast/cmd/holdfast")
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build holdfast: %w\n%s", err, out)
	}
	return nil
}

// Holdfast is a running instance.
type Holdfast struct {
	*Process
	Control string // path of its control socket
}

// StartHoldfast starts an instance that binds its sockets itself, and returns
// when it says that it is running.
func StartHoldfast(t testing.TB, cfg Config) *Holdfast {
	t.Helper()
	return startHoldfast(t, cfg, nil)
}

// StartHoldfastUnder starts an instance by another command, such as prlimit,
// that runs it in its own process.
func StartHoldfastUnder(t testing.TB, cfg Config, wrapper ...string) *Holdfast {
	t.Helper()
	return startHoldfast(t, cfg, wrapper)
}

// StartActivated starts an instance that gets each socket of the config from
// systemd-socket-activate, by name, and binds none. The first route gets a
// connection that makes it start.
func StartActivated(t testing.TB, cfg Config) *Holdfast {
	t.Helper()
	wrapper := []string{Command(t, "systemd-socket-activate")}
	var names []string
	knock := cfg.Routes[0].Listen[0] // it starts Holdfast when somebody connects
	routes := make([]Route, len(cfg.Routes))
	for i, r := range cfg.Routes {
		for _, address := range r.Listen {
			wrapper = append(wrapper, "--listen="+HostPort(address))
			names = append(names, r.Name)
		}
		routes[i] = r
		routes[i].Listen = nil
	}
	cfg.Routes = routes
	wrapper = append(wrapper, "--fdname="+strings.Join(names, ":"))
	return startHoldfast(t, cfg, wrapper, knock)
}

func startHoldfast(t testing.TB, cfg Config, wrapper []string, knock ...string) *Holdfast {
	t.Helper()
	file, control := cfg.write(t, Dir(t))
	argv := append(wrapper, Binary, "serve", "--config", file)
	h := &Holdfast{Process: Start(t, Program{Path: argv[0], Args: argv[1:]}), Control: control}
	t.Cleanup(func() {
		h.Stop()
		for _, sign := range []string{"DATA RACE", "panic:", "fatal error:"} {
			if bytes.Contains(h.Log(), []byte(sign)) {
				t.Errorf("holdfast printed %q", sign)
			}
		}
	})
	for _, address := range knock {
		Listening(t, address)
	}
	Eventually(t, 20*time.Second, "holdfast is running", func() bool {
		if h.Ended() {
			t.Fatalf("holdfast ended at start:\n%s", tail(h.Log()))
		}
		conn, err := net.Dial("unix", control)
		if err != nil {
			return false
		}
		_ = conn.Close()
		return h.Status(t).State == status.Running
	})
	return h
}

// StatusJSON is the output of `holdfast status --json`.
func (h *Holdfast) StatusJSON(t testing.TB) []byte {
	t.Helper()
	cmd := exec.Command(Binary, "status", "--json", "--control-socket", h.Control)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("holdfast status: %v\n%s\nholdfast said:\n%s", err, out, tail(h.Log()))
	}
	return out
}

// Status is the same, decoded.
func (h *Holdfast) Status(t testing.TB) status.Status {
	t.Helper()
	var s status.Status
	if err := json.Unmarshal(h.StatusJSON(t), &s); err != nil {
		t.Fatalf("holdfast status: %v", err)
	}
	return s
}
