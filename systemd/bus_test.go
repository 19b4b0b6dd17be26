package systemd

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// busConfig lets everybody do everything. DIR is where the socket is made.
const busConfig = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <listen>unix:dir=DIR</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*"/>
    <allow receive_sender="*"/>
    <allow own="*"/>
  </policy>
</busconfig>`

// startBus runs a bus of the test's own as the system's bus.
func startBus(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "bus.conf")
	require.NoError(t, os.WriteFile(config, []byte(strings.Replace(busConfig, "DIR", dir, 1)), 0o600))
	bus := exec.Command("dbus-daemon", "--nofork", "--nopidfile", "--nosyslog", "--print-address", "--config-file="+config)
	bus.Stderr = t.Output()
	bus.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := bus.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, bus.Start())
	t.Cleanup(func() {
		assert.NoError(t, bus.Process.Signal(syscall.SIGTERM))
		_ = bus.Wait() // says only that it was ended
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "it says where it listens when it does")
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", address[:len(address)-1])
}

// manager is the part of org.freedesktop.systemd1(5) that is asked for.
type manager struct {
	unit    string // of whoever asks
	jobs    []systemd.JobStatus
	service map[string]any // properties
	hang    chan struct{}  // a question for jobs waits for its end
}

// serve puts the manager on the bus.
func (m *manager) serve(t *testing.T) {
	t.Helper()
	conn, err := dbus.ConnectSystemBus()
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	const path, name = "/org/freedesktop/systemd1", "org.freedesktop.systemd1"
	require.NoError(t, conn.Export(m, path, name+".Manager"))
	require.NoError(t, conn.Export(properties{m.service}, m.path(), "org.freedesktop.DBus.Properties"))
	_, err = conn.RequestName(name, dbus.NameFlagDoNotQueue)
	require.NoError(t, err)
}

func (m *manager) path() dbus.ObjectPath {
	return dbus.ObjectPath("/org/freedesktop/systemd1/unit/" + systemd.PathBusEscape(m.unit))
}

// GetUnitByPID knows who asks only.
func (m *manager) GetUnitByPID(pid uint32) (dbus.ObjectPath, *dbus.Error) {
	if pid != 0 || m.unit == "" {
		return "", dbus.NewError("org.freedesktop.systemd1.NoUnitForPID", []any{"no unit"})
	}
	return m.path(), nil
}

// ListJobs is all jobs of the manager.
func (m *manager) ListJobs() ([]systemd.JobStatus, *dbus.Error) {
	if m.hang != nil {
		<-m.hang
	}
	return m.jobs, nil
}

type properties struct{ of map[string]any }

// Get is of org.freedesktop.DBus.Properties.
func (p properties) Get(face, name string) (dbus.Variant, *dbus.Error) {
	value, ok := p.of[name]
	if !ok || face != "org.freedesktop.systemd1.Service" {
		return dbus.Variant{}, dbus.NewError("org.freedesktop.DBus.Error.UnknownProperty", []any{name})
	}
	return dbus.MakeVariant(value), nil
}
