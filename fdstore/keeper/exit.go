package keeper

import (
	"slices"
	"strconv"

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
	clean := []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGPIPE}
	return e.known && e.code == 0 && (e.signal == 0 || slices.Contains(clean, e.signal))
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

// String is for the log: "exit code 3", "SIGKILL".
func (e exit) String() string {
	switch {
	case !e.known:
		return "not known"
	case e.signal != 0:
		return unix.SignalName(e.signal)
	}
	return "exit code " + strconv.Itoa(e.code)
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
