package systemd

import (
	"golang.org/x/sys/unix"
)

// journalSocket is where journald takes native messages,
// https://systemd.io/JOURNAL_NATIVE_PROTOCOL.
const journalSocket = "/run/systemd/journal/socket"

// journalSink sends entries to journald with their attributes as fields. It
// never waits: what journald does not take at once, because it is busy, hangs or
// is being restarted, goes to the fallback.
type journalSink struct {
	socket     string
	identifier string
	fallback   sink
	fd         int // an unconnected socket for the life of the process, -1 if there is none
}

func newJournalSink(socket, identifier string, fallback sink) *journalSink {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		fd = -1
	}
	return &journalSink{socket: socket, identifier: identifier, fallback: fallback, fd: fd}
}

func (s *journalSink) write(e entry) error {
	message := encode(e, s.identifier)
	// Addressed anew each time, it finds a journald that was restarted.
	err := retryEINTR(func() error {
		return unix.Sendto(s.fd, message, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, &unix.SockaddrUnix{Name: s.socket})
	})
	if err != nil {
		return s.fallback.write(e)
	}
	return nil
}
