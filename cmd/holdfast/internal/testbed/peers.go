package testbed

import (
	"os"
	"path/filepath"
	"testing"
)

// StartHAProxy runs HAProxy in one process on a config.
func StartHAProxy(t testing.TB, config string) *Process {
	t.Helper()
	return Start(t, Program{
		Path: Command(t, "haproxy"),
		Args: []string{"-db", "-f", writeConfig(t, "haproxy.cfg", config)},
	})
}

// StartNginx runs nginx in the foreground, in a directory of its own, on the
// text of its config's main context.
func StartNginx(t testing.TB, config string) *Process {
	t.Helper()
	file := writeConfig(t, "nginx.conf", config)
	return Start(t, Program{
		Path: Command(t, "nginx"),
		Args: []string{
			"-p", filepath.Dir(file), "-c", file, "-e", "stderr",
			"-g", "daemon off; pid nginx.pid; user root;",
		},
	})
}

// StartSocketProxyd runs systemd-socket-proxyd on a socket of
// systemd-socket-activate. It starts with the first connection.
func StartSocketProxyd(t testing.TB, listen, server string, arguments ...string) *Process {
	t.Helper()
	args := []string{"--listen=" + HostPort(listen), Command(t, "systemd-socket-proxyd")}
	args = append(append(args, arguments...), HostPort(server))
	return Start(t, Program{Path: Command(t, "systemd-socket-activate"), Args: args})
}

func writeConfig(t testing.TB, name, text string) string {
	t.Helper()
	file := filepath.Join(Dir(t), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
