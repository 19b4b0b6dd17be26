package systemd

import (
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWatchdogInterval(t *testing.T) {
	self := strconv.Itoa(os.Getpid())
	for _, tt := range []struct {
		name, usec, pid string
		want            time.Duration
		err             string
	}{
		{"not asked for", "", "", 0, ""},
		{"asked for", "30000000", self, 30 * time.Second, ""},
		{"of whoever reads it", "1500", "", 1500 * time.Microsecond, ""},
		{"of another process", "30000000", strconv.Itoa(os.Getppid()), 0, ""},
		{"the longest", "9223372036854775", self, math.MaxInt64 / 1000 * time.Microsecond, ""},
		{"longer than a duration", "9223372036854776", self, 0, `WATCHDOG_USEC="9223372036854776" is not an interval`},
		{"infinity", "18446744073709551615", self, 0, `WATCHDOG_USEC="18446744073709551615"`},
		{"never and always", "0", self, 0, `WATCHDOG_USEC="0"`},
		{"before it began", "-1", self, 0, `WATCHDOG_USEC="-1"`},
		{"no number", "30s", self, 0, `WATCHDOG_USEC="30s"`},
		{"no process", "30000000", "me", 0, `WATCHDOG_PID="me" is not a process`},
		{"process 0", "30000000", "0", 0, `WATCHDOG_PID="0"`},
		{"a process without a watchdog", "", self, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("WATCHDOG_USEC", tt.usec)
			t.Setenv("WATCHDOG_PID", tt.pid)
			interval, err := WatchdogFromEnv()
			assert.Equal(t, tt.want, interval)
			if tt.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tt.err)
			}
			assert.NotContains(t, strings.Join(os.Environ(), "\n"), "WATCHDOG_", "children do not inherit it")
		})
	}
}

func FuzzWatchdog(f *testing.F) {
	f.Add("30000000", "4711")
	f.Add("30000000", "")
	f.Add("", "4711")
	f.Add("-1", "-1")
	f.Add("18446744073709551615", "4294967296")
	f.Add("+3", "+4711")
	f.Fuzz(func(t *testing.T, usec, pid string) {
		interval, err := parseWatchdog(usec, pid, 4711)
		if err != nil || usec == "" {
			assert.Zero(t, interval)
			return
		}
		assert.GreaterOrEqual(t, interval, time.Duration(0))
		if interval > 0 {
			want, err := strconv.ParseInt(usec, 10, 64)
			require.NoError(t, err)
			assert.Equal(t, want, interval.Microseconds())
		}
	})
}
