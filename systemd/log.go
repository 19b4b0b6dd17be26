package systemd

import (
	"log/slog"
	"os"
	"strconv"

	"github.com/coreos/go-systemd/v22/journal"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// LogOptions say what is logged. Where to is found out from the environment.
type LogOptions struct {
	// Identifier is the name of the program in the journal, SYSLOG_IDENTIFIER.
	Identifier string
	// Level is the least severe level that is logged, nil = info. Give a
	// *slog.LevelVar to change it later.
	Level slog.Leveler
}

// NewLogHandler makes the handler of this process's log. It writes
//   - native journal messages, with each attribute as a field of its own, when
//     systemd has connected stderr to the journal ($JOURNAL_STREAM);
//   - else text to stderr: for people on a terminal, and as slog.TextHandler
//     for programs elsewhere.
//
// A call never waits longer than a moment. What the journal does not take goes
// to stderr; what stderr does not take is dropped and counted there.
//
// With DEBUG_INVOCATION=1, which systemd sets when it restarts a failed service
// with RestartMode=debug, debug messages are logged whatever Level says.
func NewLogHandler(o LogOptions) slog.Handler {
	return newLogHandler(o, journalSocket)
}

func newLogHandler(o LogOptions, socket string) slog.Handler {
	level := logLevel(o.Level)
	stderr := &lineWriter{file: os.Stderr}
	// A JOURNAL_STREAM that cannot be read is none.
	if connected, err := journal.StderrIsJournalStream(); err == nil && connected {
		// A line on stderr reaches the journal too, and there the prefix counts.
		return &handler{level: level, sink: newJournalSink(socket, o.Identifier, &textSink{out: stderr, prefix: true})}
	}
	if term.IsTerminal(unix.Stderr) {
		return &handler{level: level, sink: &textSink{out: stderr}}
	}
	return slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})
}

// atLeastDebug lowers a level that can still be changed.
type atLeastDebug struct{ slog.Leveler }

func (l atLeastDebug) Level() slog.Level {
	return min(l.Leveler.Level(), slog.LevelDebug)
}

func logLevel(l slog.Leveler) slog.Leveler {
	if l == nil {
		l = slog.LevelInfo
	}
	if debug, err := strconv.ParseBool(os.Getenv("DEBUG_INVOCATION")); err == nil && debug {
		return atLeastDebug{l}
	}
	return l
}
