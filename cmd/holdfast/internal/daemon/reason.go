package daemon

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// reasonVariable names the descriptor of a pipe to which a replacement writes why it
// does not take over, or that it has. Its end without a word is the end of the
// replacement. A variable that begins with HOLDFAST_ would be configuration.
const reasonVariable = "UPGRADE_REASON_FD"

// hasTakenOver is what a replacement writes when there is no reason. Its original may
// read that before it notices itself.
const hasTakenOver = "has taken over"

// wasStopped is what one writes that was told to stop.
const wasStopped = "the new process was told to stop"

// reasonFromEnv is that pipe; nil where nobody reads.
func reasonFromEnv() *os.File {
	value := os.Getenv(reasonVariable)
	_ = os.Unsetenv(reasonVariable) // fails for malformed names only
	fd, err := strconv.Atoi(value)
	if err != nil || fd < 3 {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return nil // not ours, whatever it is
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "reason")
}

// tellReason says how a start went to who waits for it.
func tellReason(to *os.File, err error) {
	if to == nil {
		return
	}
	var lines []string
	for _, p := range Problems(err) {
		lines = append(lines, p.Error)
	}
	switch {
	case err == nil:
		lines = []string{hasTakenOver}
	case errors.Is(err, context.Canceled):
		lines = []string{wasStopped}
	}
	_, _ = io.WriteString(to, strings.Join(lines, "\n")) // who waited may be gone
	_ = to.Close()
}
