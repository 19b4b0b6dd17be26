package systemd

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// journalLog is a logger whose journal is a socket of the test.
func journalLog(t *testing.T, socket string, fallback *bytes.Buffer) *slog.Logger {
	t.Helper()
	s := newJournalSink(socket, "holdfast", &textSink{out: fallback, prefix: true})
	t.Cleanup(func() { assert.NoError(t, unix.Close(s.fd)) })
	return slog.New(&handler{level: slog.LevelDebug, sink: s})
}

// decode reads a message as the specification of the native protocol says.
func decode(t *testing.T, message string) map[string]string {
	t.Helper()
	fields := map[string]string{}
	for message != "" {
		line, rest, ok := strings.Cut(message, "\n")
		require.True(t, ok, "a field must end")
		name, value, text := strings.Cut(line, "=")
		if !text {
			require.GreaterOrEqual(t, len(rest), 8)
			n := binary.LittleEndian.Uint64([]byte(rest))
			require.Less(t, n, uint64(len(rest)-8))
			value, rest = rest[8:8+n], rest[8+n:]
			require.Equal(t, byte('\n'), rest[0])
			rest = rest[1:]
		}
		require.NotContains(t, fields, name)
		fields[name], message = value, rest
	}
	return fields
}

func TestAttributesAreJournalFields(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	journald := datagrams(t, socket)
	var fallback bytes.Buffer
	log := journalLog(t, socket, &fallback).With("listener", "web")

	log.Warn("dial failed", "upstream", "app", "client", "10.0.0.1:1234", "error", "line 1\nline 2",
		slog.Group("peer", "user.id", 7), "_pid", 1, "9lives", 9, "message", "mine", "größe", 2, "", "nameless")
	assert.Equal(t, map[string]string{
		"MESSAGE": `dial failed listener=web upstream=app client=10.0.0.1:1234 error="line 1\nline 2" peer.user.id=7` +
			` _pid=1 9lives=9 message=mine größe=2 ""=nameless`,
		"PRIORITY": "4", "SYSLOG_IDENTIFIER": "holdfast",
		"LISTENER": "web", "UPSTREAM": "app", "CLIENT": "10.0.0.1:1234", "ERROR": "line 1\nline 2",
		"PEER_USER_ID": "7", "PID": "1", "X_9LIVES": "9", "X_MESSAGE": "mine", "GR__E": "2", "X_": "nameless",
	}, decode(t, next(t, journald)))

	log.Debug("m")
	assert.Equal(t, "7", decode(t, next(t, journald))["PRIORITY"])
	assert.Empty(t, fallback.String())
}

func TestLargeMessagesAreCutToWhatADatagramHolds(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	journald := datagrams(t, socket)
	var fallback bytes.Buffer
	huge := strings.Repeat("ü", 1<<20)

	var attrs []any
	for _, key := range strings.Split("abcdefghij", "") {
		attrs = append(attrs, key, huge)
	}
	journalLog(t, socket, &fallback).Info("m", attrs...)
	message := next(t, journald)
	assert.LessOrEqual(t, len(message), maxMessage)
	fields := decode(t, message)
	assert.Equal(t, huge[:maxValue]+"…", fields["A"])
	assert.Equal(t, "6", fields["PRIORITY"])
	assert.NotContains(t, fields, "J")
	assert.Empty(t, fallback.String())
}

func TestWithoutAJournalTheLogGoesToStderrAndBackAgain(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	var fallback bytes.Buffer
	log := journalLog(t, socket, &fallback)
	log.Error("never there")
	first := datagrams(t, socket)
	log.Error("there")
	assert.Contains(t, next(t, first), "MESSAGE=there\n")
	require.NoError(t, first.Close())
	require.NoError(t, os.Remove(socket))
	log.Error("gone", "listener", "web")
	second := datagrams(t, socket)
	log.Error("restarted")
	assert.Contains(t, next(t, second), "MESSAGE=restarted\n")
	assert.Equal(t, "<3>never there\n<3>gone listener=web\n", fallback.String())
}

func TestAJournalThatHangsDoesNotHoldTheCallerUp(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	datagrams(t, socket) // nobody reads
	var fallback bytes.Buffer
	log := journalLog(t, socket, &fallback)
	start := time.Now()
	const messages = 2000 // more than any queue: net.unix.max_dgram_qlen, and 208 KiB
	for range messages {
		log.Info("m")
	}
	assert.Less(t, time.Since(start), 5*time.Second)
	assert.NotEmpty(t, fallback.String())
}

func FuzzEncode(f *testing.F) {
	f.Add("message", "key", "value")
	f.Add("two\nlines", "", "a\n=b\n")
	f.Add("", "_MESSAGE", "\x00\xff")
	f.Add("m", "two\nlines", "v")
	f.Add("m", "1"+strings.Repeat("é", 100), strings.Repeat("x", maxValue))
	valid := regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)
	f.Fuzz(func(t *testing.T, message, key, value string) {
		fields := decode(t, string(encode(entry{message: message, fields: []field{{key, value}}}, "holdfast")))
		require.Len(t, fields, 4)
		name := fieldName(key)
		assert.Regexp(t, valid, name)
		if len(value) <= maxValue {
			assert.Equal(t, value, fields[name])
		}
		assert.NotContains(t, fields["MESSAGE"], "\n")
	})
}
