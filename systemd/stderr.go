package systemd

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxLine is PIPE_BUF. A pipe that is writable takes that much at once, so a
	// longer line could block, and could be mixed with those of other processes.
	maxLine = 4096

	// stderrPatience is how long the first line waits for a full stderr. Those
	// after it do not, until stderr takes one again.
	stderrPatience = 100 * time.Millisecond
)

// lineWriter writes lines to a file that may be a pipe or terminal which nobody
// reads: a stopped log collector must not stop the service. Lines are dropped
// then, and counted in the next one that gets through.
//
// It writes to the descriptor directly. After a write to stderr that fails with
// EPIPE, (*os.File).Write ends the process with SIGPIPE.
type lineWriter struct {
	file *os.File

	mu      sync.Mutex
	dropped uint64
}

// Write writes one line. A long one is cut to maxLine bytes.
func (w *lineWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dropped > 0 {
		if err := w.writeLine(fmt.Appendf(nil, "%d log lines dropped: stderr did not take them\n", w.dropped)); err != nil {
			w.dropped++
			return 0, err
		}
		w.dropped = 0
	}
	if err := w.writeLine(cut(line)); err != nil {
		w.dropped++
		return 0, err
	}
	return len(line), nil
}

func (w *lineWriter) writeLine(line []byte) error {
	wait := stderrPatience
	if w.dropped > 0 {
		wait = 0
	}
	conn, err := w.file.SyscallConn()
	if err != nil {
		return err
	}
	var writeErr error
	err = conn.Control(func(fd uintptr) { writeErr = writeWithin(int(fd), line, wait) })
	if err != nil {
		return err
	}
	return writeErr
}

// writeWithin writes when the descriptor takes something within the given time.
func writeWithin(fd int, b []byte, wait time.Duration) error {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	var ready int
	err := retryEINTR(func() (err error) {
		ready, err = unix.Poll(poll, int(wait.Milliseconds()))
		return err
	})
	if err != nil {
		return err
	}
	if ready == 0 {
		return os.ErrDeadlineExceeded
	}
	return retryEINTR(func() error {
		_, err := unix.Write(fd, b)
		return err
	})
}

func cut(line []byte) []byte {
	if len(line) <= maxLine {
		return line
	}
	const end = "…\n"
	return append(line[:maxLine-len(end):maxLine-len(end)], end...)
}
