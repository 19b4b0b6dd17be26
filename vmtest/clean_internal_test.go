package vmtest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAMachineThatCannotBeCleanedIsReplaced(t *testing.T) {
	s := oneSlot(t)
	for left, leave := range map[string]func(g *Guest){
		"still there: vmtest-stubborn.service": func(g *Guest) {
			g.StartUnit("stubborn", "--property=RefuseManualStop=yes", "--property=Restart=always", "sleep", "infinity")
		},
		"rm: cannot remove '/srv/file'": func(g *Guest) {
			g.Write("/srv/file", "")
			g.Run("mount", "--bind", "/srv/file", "/srv/file")
		},
		"userdel: user holdfast is currently used by process": func(g *Guest) {
			g.Run("useradd", "holdfast")
			g.Run("systemd-run", "--quiet", "--unit=other", "--uid=holdfast", "sleep", "infinity")
		},
	} {
		s.ensureMachine(t)
		first := s.running
		g := &Guest{t: t, machine: first}
		require.NoError(t, g.restore(), "nothing is left of nothing")
		require.True(t, first.Alive())
		leave(g)
		require.ErrorContains(t, g.restore(), left)
		s.ensureMachine(t)
		assert.NotSame(t, first, s.running)
		assert.True(t, s.running.Alive())
	}
}
