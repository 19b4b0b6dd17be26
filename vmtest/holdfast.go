package vmtest

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/vmtest/wire"
)

// Where files go: unitDir is a package's. What a scenario adds, it adds as an
// administrator, to LocalUnits.
const (
	program    = "/usr/bin/holdfast"
	unitDir    = "/usr/lib/systemd/system/"
	LocalUnits = "/etc/systemd/system/"
	ConfigFile = "/etc/holdfast/holdfast.toml"
)

// Install brings Holdfast into the guest as a package would: the program, the
// units of packaging/ and the user. Nothing is started.
func (g *Guest) Install(config string) {
	g.t.Helper()
	g.WritePackaged(unitDir+"holdfast.service", "systemd/holdfast.service")
	g.WritePackaged(unitDir+"holdfast.socket", "systemd/holdfast.socket")
	if g.Systemd >= 254 {
		g.WritePackaged(unitDir+"holdfast.service.d/254.conf", "systemd/holdfast.service.d/254.conf")
	}
	g.WritePackaged("/usr/lib/sysusers.d/holdfast.conf", "sysusers.d/holdfast.conf")
	g.Write(ConfigFile, config)
	g.Run("install", "-m", "755", wire.Dir+"/holdfast", program)
	g.written = append(g.written, program)
	g.Run("systemd-sysusers", "holdfast.conf")
}

// WritePackaged writes a file of packaging/ into the guest.
func (g *Guest) WritePackaged(path, name string) {
	g.t.Helper()
	content, err := os.ReadFile(filepath.Join(moduleDir(), "packaging", name))
	require.NoError(g.t, err)
	g.Write(path, string(content))
}

// DropIn adds settings to a unit, as a section and its lines.
func (g *Guest) DropIn(unit, settings string) {
	g.t.Helper()
	g.Write(LocalUnits+unit+".d/scenario.conf", settings)
}

// Status is what the running instance says of itself, as far as scenarios look
// at it.
type Status struct {
	Version    string
	PID        int
	Generation int
	State      string
	Holder     string
	Listeners  struct {
		LastError string `json:"last_error"`
		Sockets   []Socket
	}
	Connections struct{ Active, Accepted, Failed, Kept, Unkept, Restored, Lost int }
}

// Socket is a listening socket in a Status.
type Socket struct {
	Socket      string
	Names       []string
	State       string
	Generations []int
	Origin      string
	Connections int
	Accepted    int
}

// Status asks the running instance.
func (g *Guest) Status() Status {
	g.t.Helper()
	var s Status
	require.NoError(g.t, json.Unmarshal([]byte(g.Run("holdfast", "status", "--json")), &s))
	return s
}
