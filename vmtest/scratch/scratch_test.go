package scratch

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAFolderInUseIsNotCleared(t *testing.T) {
	used := newDir(t)
	left, err := New()
	require.NoError(t, err)
	require.NoError(t, left.lock.Close()) // as by the end of its process
	clearLeft()
	assert.DirExists(t, used.Path)
	assert.NoDirExists(t, left.Path)
}
