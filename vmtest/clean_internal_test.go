package vmtest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAMachineThatCannotBeCleanedIsReplaced(t *testing.T) {
	s := oneSlot(t)
	first := s.running
	g := &Guest{t: t, machine: first}
	require.NoError(t, g.restore(), "nothing is left of nothing")
	require.True(t, first.Alive())

	g.StartUnit("stubborn", "--property=RefuseManualStop=yes", "--property=Restart=always", "sleep", "infinity")
	require.ErrorContains(t, g.restore(), "still there: vmtest-stubborn.service")
	s.ensureMachine(t)
	assert.NotSame(t, first, s.running)
	assert.True(t, s.running.Alive())
}
