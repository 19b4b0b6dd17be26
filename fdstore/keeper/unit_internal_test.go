package keeper

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore"
)

func TestThePauseDoublesUpToAMostAndBeginsAnewAfterAGoodLife(t *testing.T) {
	var b backoff
	for _, want := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
		assert.Equal(t, want*time.Millisecond, b.next(9*time.Second))
	}
	assert.Zero(t, b.next(10*time.Second))
	assert.Zero(t, b.next(10*time.Second))
	assert.Equal(t, 100*time.Millisecond, b.next(0))
	assert.Equal(t, 200*time.Millisecond, b.next(0))
}

func TestHowAnEndIsTaken(t *testing.T) {
	for _, tt := range []struct {
		exit  exit
		good  bool
		shell int
		text  string
	}{
		{exit{known: true}, true, 0, "exit code 0"},
		{exit{known: true, code: 3}, false, 3, "exit code 3"},
		{exit{known: true, signal: unix.SIGTERM}, true, 143, "SIGTERM"},
		{exit{known: true, signal: unix.SIGPIPE}, true, 141, "SIGPIPE"},
		{exit{known: true, signal: unix.SIGABRT}, false, 134, "SIGABRT"},
		{exit{}, false, 1, "not known"},
	} {
		assert.Equal(t, tt.good, tt.exit.good(), tt.text)
		assert.Equal(t, tt.shell, tt.exit.shell(), tt.text)
		assert.Equal(t, tt.text, tt.exit.String())
	}
}

func TestTheEnvironmentOfAProcess(t *testing.T) {
	p := &place{notify: "@n", job: "@j", id: "7"}
	environ := []string{"A=1", "NOTIFY_SOCKET=x", "LISTEN_PID=1", "LISTEN_FDS=1", "LISTEN_FDNAMES=x", "LISTEN_PIDFDID=1", "FDSTORE=1", "WATCHDOG_PID=1", "LISTEN_FDSX=kept", "=odd"}
	none := environment(environ, p, Options{}, nil)
	assert.Equal(t, []string{"A=1", "LISTEN_FDSX=kept", "=odd", "NOTIFY_SOCKET=@n", "KEEPER_SOCKET=@j", "KEEPER_ID=7"}, none)
	assert.Equal(t, append(none, "FDSTORE=7", "WATCHDOG_USEC=1500000", "LISTEN_FDS=2", "LISTEN_FDNAMES=a:b"),
		environment(environ, p, Options{StoreMax: 7, Watchdog: 1500 * time.Millisecond}, []string{"a", "b"}))
	assert.Equal(t, "NOTIFY_SOCKET=x", environ[1], "it is not changed")
}

func TestTimes(t *testing.T) {
	now := time.Now()
	assert.Equal(t, -1, millisecondsTo(time.Time{}), "never")
	assert.Zero(t, millisecondsTo(now.Add(-time.Hour)))
	assert.InDelta(t, 60_000, millisecondsTo(now.Add(time.Minute)), 5000)
	assert.Equal(t, 3_600_000, millisecondsTo(now.Add(200*365*24*time.Hour)))

	assert.Zero(t, later(time.Time{}, now), "what has not begun is not put off")
	assert.Equal(t, now, later(now.Add(-1), now))
	assert.Equal(t, now.Add(1), later(now.Add(1), now))
}

func TestNumbersOfMicroseconds(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"0": 0, "1": time.Microsecond, "60000000": time.Minute, "9223372036854775": 9223372036854775 * time.Microsecond,
		"": -1, "-1": -1, "1s": -1, "9223372036854776": -1, "18446744073709551615": -1, "18446744073709551616": -1,
	} {
		got, ok := parseMicroseconds(value)
		assert.Equal(t, want >= 0, ok, value)
		assert.Equal(t, max(want, 0), got, value)
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	good := Options{Command: []string{"true"}, Step: []string{"step"}}
	require.NoError(t, good.Check())
	for reason, spoil := range map[string]func(*Options){
		"no command":        func(o *Options) { o.Command = nil },
		"not \"sometimes\"": func(o *Options) { o.Restart = "sometimes" },
		"-1 is no size":     func(o *Options) { o.StoreMax = -1 },
		"negative":          func(o *Options) { o.Watchdog = -1 },
	} {
		o := good
		spoil(&o)
		require.ErrorContains(t, o.Check(), reason)
		_, err := Run(o)
		require.ErrorContains(t, err, reason)
	}
}

func TestTheNamesOfSocketsLeaveRoomForThoseOfTheStore(t *testing.T) {
	assert.Equal(t, 127<<10, nameBytes(nil))
	assert.Equal(t, 127<<10-4-1, nameBytes([]fdstore.Held{{Name: "web"}, {}}))
}

func TestWhoDescendsFromWhom(t *testing.T) {
	assert.True(t, descends(os.Getpid(), os.Getppid()))
	assert.True(t, descends(os.Getpid(), 4194305, os.Getpid()))
	assert.False(t, descends(os.Getppid(), os.Getpid()))
	assert.False(t, descends(0, 0), "of another PID name space")
	assert.False(t, descends(4194305, 1), "there is none")
}

func TestTheStatOfAProcess(t *testing.T) {
	for line, want := range map[string]procStat{
		"7 (a) S 5 7 7 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 4711 x y":           {5, 4711},
		"7 (a) b) S 1 2 3) S 5 7 7 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 4711\n": {5, 4711},
	} {
		s, err := parseStat([]byte(line))
		require.NoError(t, err)
		assert.Equal(t, want, s)
	}
	self, err := readStat(os.Getpid())
	require.NoError(t, err)
	assert.Equal(t, os.Getppid(), self.parent)
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("7 (a) S 5 7 7 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 4711 x y"))
	f.Add([]byte(")"))
	f.Add([]byte(""))
	f.Add([]byte("1 (x) S x 1 1 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 -1"))
	f.Fuzz(func(t *testing.T, line []byte) {
		s, err := parseStat(line)
		if err != nil {
			assert.Zero(t, s.started)
		}
	})
}

func FuzzReadWord(f *testing.F) {
	for _, seed := range []string{"restart 0123456789abcdef", "stop 7", "stop", "", "unknown 7", " ", strings.Repeat("x", 100)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		w, err := readWord(bytes.NewReader(message))
		if err == nil {
			assert.Contains(t, []Job{JobStop, JobRestart}, w.job)
		} else {
			assert.Zero(t, w)
		}
	})
}
