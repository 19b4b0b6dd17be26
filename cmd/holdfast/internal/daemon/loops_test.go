package daemon

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A cgroup's CPU quota shows in GOMAXPROCS, not in the number of cores.
func TestLoopsAreWhatTheRuntimeMayUseAndOneProcessorIsLeftOver(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	assert.Equal(t, 3, spreadLoops())
	assert.Equal(t, 4, runtime.GOMAXPROCS(0))
}
