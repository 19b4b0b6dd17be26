package keeper

import (
	"log/slog"

	"golang.org/x/sys/unix"
)

// exit is how a process ended. The zero value means that it was another's child and
// only that one knows.
type exit struct {
	known  bool
	code   int
	signal unix.Signal // 0 = none
}

func exitOf(status unix.WaitStatus) exit {
	if status.Signaled() {
		return exit{known: true, signal: status.Signal()}
	}
	return exit{known: true, code: status.ExitStatus()}
}

// good is the end that systemd calls clean: exit code 0, or one of the signals by
// which a program that knows nothing of signals is stopped.
func (e exit) good() bool {
	switch e.signal {
	case 0:
		return e.known && e.code == 0
	case unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGPIPE:
		return true
	}
	return false
}

// shell is the exit code that a shell would give it.
func (e exit) shell() int {
	switch {
	case !e.known:
		return 1
	case e.signal != 0:
		return 128 + int(e.signal)
	}
	return e.code
}

func (e exit) attr() slog.Attr {
	switch {
	case !e.known:
		return slog.String("exit", "not known")
	case e.signal != 0:
		return slog.String("signal", unix.SignalName(e.signal))
	}
	return slog.Int("exit", e.code)
}

// wantsRestart tells whether the command is to be started again after such an end.
func (p RestartPolicy) wantsRestart(e exit) bool {
	switch p {
	case RestartNever:
		return false
	case RestartOnFailure:
		return !e.good()
	case RestartAlways:
	}
	return true
}

// job is what follows on a good end, as long as no stop was asked for.
func (p RestartPolicy) job() Job {
	if p.wantsRestart(exit{known: true}) {
		return JobRestart
	}
	return JobStop
}
