package vmtest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/vmtest/wire"
)

// oneSlot is the first release's, with a machine that runs, until the test ends.
func oneSlot(t *testing.T) *slot {
	t.Helper()
	if testing.Short() {
		t.Skip("needs virtual machines")
	}
	chosen, err := slots()
	require.NoError(t, err)
	s := chosen[0]
	s.mu.Lock()
	t.Cleanup(s.mu.Unlock)
	s.ensureMachine(t)
	return s
}

func TestAMachineThatAScenarioBroughtDownIsReplaced(t *testing.T) {
	s := oneSlot(t)
	first := s.running
	_, err := first.Run(t.Context(), wire.Command{Args: []string{"sh", "-c", "poweroff -ff; sleep 60"}, Timeout: patience})
	require.ErrorContains(t, err, "the machine ended")

	s.ensureMachine(t)
	assert.NotSame(t, first, s.running)
	assert.True(t, s.running.Alive())
}
