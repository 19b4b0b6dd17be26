package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	controlSocket  = "control.sock"
	handoverSocket = "handover.sock"
)

// The variables that say where the process's own sockets are by default.
const (
	runtimeVariable = "RUNTIME_DIRECTORY" // set by systemd for RuntimeDirectory=
	sessionVariable = "XDG_RUNTIME_DIR"
)

// FindControlSocket is the path where a command looks for a running instance: of
// the places where a default control socket may be the first that exists, else
// that of DefaultGlobal. An operator's shell has an XDG_RUNTIME_DIR, the service
// it asks has none. environ is in the form of os.Environ.
func FindControlSocket(environ []string) string {
	for _, dir := range runtimeDirectories(environ) {
		p := filepath.Join(dir, controlSocket)
		if _, err := os.Stat(p); !errors.Is(err, fs.ErrNotExist) {
			return p // also one that may not be looked at: that is what to say then
		}
	}
	return DefaultGlobal(environ).ControlSocket
}

// runtimeDirectories is where the process's own sockets may be by default, the
// preferred one first. Relative directories count as unset, as the XDG base
// directory specification asks.
func runtimeDirectories(environ []string) []string {
	var own, session string
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		switch name {
		case runtimeVariable:
			own, _, _ = strings.Cut(value, ":")
		case sessionVariable:
			session = value
		}
	}
	var dirs []string
	if filepath.IsAbs(own) {
		dirs = append(dirs, filepath.Clean(own))
	}
	if filepath.IsAbs(session) {
		dirs = append(dirs, filepath.Join(session, "holdfast"))
	}
	return append(dirs, "/run/holdfast")
}

// DefaultGlobal is the [global] table of a configuration without one. The
// process's own sockets are in $RUNTIME_DIRECTORY (the first of several), else in
// $XDG_RUNTIME_DIR/holdfast, else in /run/holdfast. environ is in the form of
// os.Environ.
func DefaultGlobal(environ []string) Global {
	dir := runtimeDirectories(environ)[0]
	return Global{
		ControlSocket:  filepath.Join(dir, controlSocket),
		HandoverSocket: filepath.Join(dir, handoverSocket),
		Keep:           KeepConnections,
		DrainTimeout:   Timeout{Duration: time.Minute},
		OnTerm:         OnTermAuto,
		LogLevel:       LogInfo,
	}
}

func defaultUpstream(name string) Upstream {
	return Upstream{
		Name:           name,
		Balance:        RoundRobin,
		ConnectTimeout: 5 * time.Second,
		ConnectRetry:   10 * time.Second,
	}
}

// defaultHealth is what a health table without keys means.
func defaultHealth() Health {
	return Health{Interval: 5 * time.Second, Timeout: time.Second, Rise: 2, Fall: 3}
}
