package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0":      0,
		"0s":     0,
		"1ms":    time.Millisecond,
		"1m30s":  90 * time.Second,
		"1.5h":   90 * time.Minute,
		"87600h": maxDuration,
	} {
		d, err := parseDuration(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, d, text)
	}
	for text, want := range map[string]string{
		"":              "is not a duration",
		"60":            `"60" has no unit (write "60s")`,
		"1d":            "write a number and h, m, s or ms",
		"soon":          "is not a duration",
		"-1s":           "is negative",
		"-0.5ms":        "is negative",
		"1us":           "is shorter than 1ms",
		"999999ns":      "is shorter than 1ms",
		"87600h1ms":     "is longer than 87600h",
		"99999999999h":  "is not a duration",
		"never":         "only known to drain_timeout",
		"1s 2s":         "is not a duration",
		"1000000000000": "has no unit",
	} {
		_, err := parseDuration(text)
		checkRefused(t, text, want, err)
	}
}

func TestZeroIsNoTimeLimitOfAnAttempt(t *testing.T) {
	t.Parallel()
	_, err := parsePositive("0")
	require.ErrorContains(t, err, "must be more than zero")
	d, err := parsePositive("1s")
	require.NoError(t, err)
	assert.Equal(t, time.Second, d)
}

func TestTimeoutsMayBeEndless(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Timeout{
		"never": {Never: true},
		"0":     {},
		"60s":   {Duration: time.Minute},
	} {
		got, err := parseTimeout(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	_, err := parseTimeout("ever")
	require.ErrorContains(t, err, "is not a duration")
}
