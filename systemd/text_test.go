package systemd

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 5e6, time.UTC)

func TestTextLines(t *testing.T) {
	for _, tt := range []struct {
		name    string
		level   slog.Level
		message string
		attrs   []any
		want    string // "" = as prefixed
		prefix  string
	}{
		{
			"plain", slog.LevelInfo, "listening",
			[]any{"listener", "web", "socket", "tcp :80"},
			`12:00:00.005 INFO  listening listener=web socket="tcp :80"`, `<6>listening listener=web socket="tcp :80"`,
		},
		{"debug", slog.LevelDebug, "m", nil, `12:00:00.005 DEBUG m`, `<7>m`},
		{"notice", slog.LevelInfo + 1, "m", nil, `12:00:00.005 INFO+1 m`, `<5>m`},
		{"warning", slog.LevelWarn, "m", nil, `12:00:00.005 WARN  m`, `<4>m`},
		{"error", slog.LevelError, "m", []any{"error", errors.New("no way")}, `12:00:00.005 ERROR m error="no way"`, `<3>m error="no way"`},
		{
			"values", slog.LevelInfo, "m",
			[]any{"a", 1, "b", netip.MustParseAddr("::1"), "c", time.Second, "d", "", "e", noon, "f", `x"y`, "g", "k=v"},
			``, `<6>m a=1 b=::1 c=1s d="" e=2026-01-02T12:00:00.005Z f="x\"y" g="k=v"`,
		},
		{
			"groups", slog.LevelInfo, "m",
			[]any{slog.Group("peer", "addr", "::1", slog.Group("", "port", 80)), slog.Group("none")},
			``, `<6>m peer.addr=::1 peer.port=80`,
		},
		{
			"a client cannot forge lines or move the cursor", slog.LevelInfo, "m\n<0>forged",
			[]any{"sni", "\x1b[2J", "bad\n", "\xff"},
			``, `<6>"m\n<0>forged" sni="\x1b[2J" "bad\n"="\xff"`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := slog.NewRecord(noon, tt.level, tt.message, 0)
			r.Add(tt.attrs...)
			var plain, prefixed bytes.Buffer
			require.NoError(t, (&handler{sink: &textSink{out: &plain}}).Handle(t.Context(), r))
			require.NoError(t, (&handler{sink: &textSink{out: &prefixed, prefix: true}}).Handle(t.Context(), r))
			assert.Equal(t, tt.prefix+"\n", prefixed.String())
			if tt.want != "" {
				assert.Equal(t, tt.want+"\n", plain.String())
			}
		})
	}
}

func TestLoggersOfOneParentDoNotMixTheirAttributes(t *testing.T) {
	var b bytes.Buffer
	parent := slog.New(&handler{level: slog.LevelInfo, sink: &textSink{out: &b, prefix: true}}).With("a", 1, "b", 2, "c", 3)
	one, two := parent.With("one", 1), parent.WithGroup("g").With("two", 2)
	one.Info("m")
	two.Info("m", "x", 3)
	parent.Info("m", "y", 4)
	assert.Equal(t, "<6>m a=1 b=2 c=3 one=1\n<6>m a=1 b=2 c=3 g.two=2 g.x=3\n<6>m a=1 b=2 c=3 y=4\n", b.String())
}

func TestHandlerKeepsTheRulesOfSlog(t *testing.T) {
	var b bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		b.Reset()
		return &handler{level: slog.LevelInfo, sink: &textSink{out: &b}}
	}, func(t *testing.T) map[string]any {
		return parseLine(t, b.String())
	})
}

// parseLine is the inverse of textSink, for messages of one word.
func parseLine(t *testing.T, line string) map[string]any {
	t.Helper()
	got := map[string]any{}
	words := strings.Fields(line)
	if _, err := time.Parse("15:04:05.000", words[0]); err == nil {
		got[slog.TimeKey], words = words[0], words[1:]
	}
	require.GreaterOrEqual(t, len(words), 2, line)
	got[slog.LevelKey], got[slog.MessageKey] = words[0], words[1]
	for _, w := range words[2:] {
		key, value, _ := strings.Cut(w, "=")
		in := got
		for group, rest, ok := strings.Cut(key, "."); ok; group, rest, ok = strings.Cut(key, ".") {
			if in[group] == nil {
				in[group] = map[string]any{}
			}
			in, key = in[group].(map[string]any), rest
		}
		in[key] = value
	}
	return got
}
