package vmtest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest/wire"
)

// assertNoneLost: no client was refused, cut off or left waiting.
func assertNoneLost(t *testing.T, r wire.LoadReport) {
	t.Helper()
	assert.Zero(t, r.New.Bad(), "new connections: %+v", r.New)
	assert.Zero(t, r.Streams.Bad(), "streams: %+v", r.Streams)
	assert.Empty(t, r.Errors)
}

// assertOnlyAcceptedLost: as many as were killed between the system call that accepts
// and the next one. Streams go on.
func assertOnlyAcceptedLost(t *testing.T, r wire.LoadReport, most int) {
	t.Helper()
	assertNobodyRefused(t, r, most)
	assert.Zero(t, r.Streams.Bad(), "streams: %+v", r.Streams)
}

// assertNobodyRefused: of the new connections none was refused or left waiting, and
// so many at most were cut off.
func assertNobodyRefused(t *testing.T, r wire.LoadReport, cut int) {
	t.Helper()
	assert.Zero(t, r.New.Refused, r.Errors)
	assert.Zero(t, r.New.Timeout, r.Errors)
	assert.Zero(t, r.New.Wrong, r.Errors)
	assert.LessOrEqual(t, r.New.Bad(), cut, r.Errors)
}
