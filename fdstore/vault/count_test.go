package vault_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/fdstore/vault"
)

func TestWhatAVaultKeepsIsCountedByItsTable(t *testing.T) {
	v := newVault(t, options())
	w, table := v.Writer(0), theTable(t)
	counted := func() int {
		n, err := vault.Count(table)
		require.NoError(t, err)
		return n
	}
	_, _, ok := w.Take()
	require.True(t, ok)
	assert.Zero(t, counted(), "it is only taken")
	slots := fill(t, w, 1500, eventfd(t))
	assert.Equal(t, 1500, counted())
	for _, slot := range slots[:1000] {
		w.Drop(slot)
	}
	assert.Equal(t, 500, counted())
}

func TestOfWhatIsNoTableNothingIsCounted(t *testing.T) {
	file, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer file.Close()
	_, err = vault.Count(int(file.Fd()))
	require.ErrorIs(t, err, vault.ErrUnreadable)
}
