package testbed

import (
	"reflect"
	"testing"
	"time"
)

// Eventually polls until the named condition holds, and fails the test when it
// does not in time. The condition runs in the test's goroutine: it may fail the
// test itself.
func Eventually(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("not after %v: %s", within, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// EventuallyEqual polls until a named value is as wanted, and fails the test with
// the last value when it is not in time.
func EventuallyEqual[T any](t testing.TB, within time.Duration, what string, want T, get func() T) {
	t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(5 * time.Millisecond) {
		got := get()
		if reflect.DeepEqual(want, got) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s after %v:\n got %+v\nwant %+v", what, within, got, want)
		}
	}
}
