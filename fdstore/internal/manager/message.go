package manager

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// maxText is NOTIFY_BUFFER_MAX of systemd, in bytes.
const maxText = 4096

// Message is one datagram. Whoever has it owns its FDs.
type Message struct {
	PID   int      // of the process that sent it; 0 = of another PID name space
	Lines []string // assignments such as "READY=1"; never empty strings
	FDs   []*sock.FD
}

var (
	errTooLong = errors.New("it is longer than 4096 bytes")
	errNUL     = errors.New("it has a NUL byte in its midst")
)

// parse splits the text of a message into lines.
func parse(text []byte) ([]string, error) {
	if len(text) > maxText {
		return nil, errTooLong
	}
	text = bytes.TrimSuffix(text, []byte{0})
	if bytes.IndexByte(text, 0) >= 0 {
		return nil, errNUL
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' || r == '\r' }), nil
}

// Has tells whether a line is there just so.
func (m Message) Has(line string) bool {
	return slices.Contains(m.Lines, line)
}

// Value is what the first line of that name assigns.
func (m Message) Value(name string) (value string, ok bool) {
	for _, line := range m.Lines {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// IsBarrier tells whether the sender asks for nothing but to be told when its
// messages have been dealt with. It is answered by closing what came with it, and
// nothing else in the message counts.
func (m Message) IsBarrier() bool {
	return m.Has("BARRIER=1")
}

// Close closes the descriptors.
func (m Message) Close() {
	closeAll(m.FDs)
}

// fdName is the first FDNAME=, if it is a valid one: fdname_is_valid of systemd.
func (m Message) fdName() (name string, valid bool) {
	const maxName = 255
	name, ok := m.Value("FDNAME")
	bad := func(r rune) bool { return r < ' ' || r >= 127 || r == ':' }
	return name, ok && len(name) <= maxName && !strings.ContainsFunc(name, bad)
}

func closeAll(fds []*sock.FD) {
	for _, fd := range fds {
		_ = fd.Close()
	}
}
