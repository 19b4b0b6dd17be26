package testbed

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Config is what a Holdfast under test is told: lines of TOML for [global] and
// the routes.
type Config struct {
	Global string
	Routes []Route
}

// Route is one listener with an upstream of the same name.
type Route struct {
	Name     string
	Listen   []string // "tcp://127.0.0.1:1", "unix:///path"; none = only from a socket unit
	Servers  []string
	Listener string // more lines of TOML for [listener.NAME]
	Upstream string // more lines of TOML for [upstream.NAME]
}

// write puts the config into dir, and says in it that the instance's own sockets are
// there, too: one of another test must not be taken over.
func (c Config) write(t testing.TB, dir string) (file, control string) {
	t.Helper()
	control = filepath.Join(dir, "control.sock")
	var b strings.Builder
	fmt.Fprintf(&b, "[global]\ncontrol_socket = %q\nhandover_socket = %q\n%s\n", control, filepath.Join(dir, "handover.sock"), c.Global)
	for _, r := range c.Routes {
		fmt.Fprintf(&b, "\n[listener.%s]\nupstream = %q\n", r.Name, r.Name)
		if len(r.Listen) > 0 {
			fmt.Fprintf(&b, "listen = %s\n", tomlList(r.Listen))
		}
		fmt.Fprintf(&b, "%s\n\n[upstream.%s]\nservers = %s\n%s\n", r.Listener, r.Name, tomlList(r.Servers), r.Upstream)
	}
	file = filepath.Join(dir, "holdfast.toml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, control
}

func tomlList(items []string) string {
	return `["` + strings.Join(items, `", "`) + `"]`
}
