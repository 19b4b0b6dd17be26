package config

import (
	"regexp"
	"time"
)

const (
	// minDuration is the least that is not zero. What is shorter would make a
	// timer spin and is a slip of the unit.
	minDuration = time.Millisecond
	// maxDuration, ten years, keeps sums with a clock far from overflow.
	maxDuration = 10 * 365 * 24 * time.Hour
)

// plainNumber is a duration whose unit was forgotten.
var plainNumber = regexp.MustCompile(`^[0-9]+$`)

// parseDuration reads a duration in Go's form, "1m30s", or "0".
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	switch {
	case plainNumber.MatchString(text) && text != "0":
		return 0, refuse("write "+short(text+"s"), "%s has no unit", short(text))
	case text == "never":
		return 0, refuse("", `"never" is only known to drain_timeout`)
	case err != nil:
		return 0, refuse(`write a number and h, m, s or ms, such as "1m30s"; the longest is "87600h"`, "%s is not a duration", short(text))
	case d < 0:
		return 0, refuse("", "%s is negative", short(text))
	case d > 0 && d < minDuration:
		return 0, refuse("", "%s is shorter than 1ms", short(text))
	case d > maxDuration:
		return 0, refuse("", "%s is longer than 87600h (ten years)", short(text))
	}
	return d, nil
}

// parsePositive reads a duration that must not be zero.
func parsePositive(text string) (time.Duration, error) {
	d, err := parseDuration(text)
	if err == nil && d == 0 {
		return 0, refuse("", "must be more than zero")
	}
	return d, err
}

// parseTimeout reads a duration or "never".
func parseTimeout(text string) (Timeout, error) {
	if text == "never" {
		return Timeout{Never: true}, nil
	}
	d, err := parseDuration(text)
	return Timeout{Duration: d}, err
}
