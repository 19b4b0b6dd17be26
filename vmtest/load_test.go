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
