package vault_test

import (
	"bytes"
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/fdstore/vault"
)

func TestTheCommonPageIsTheNextProcesssToo(t *testing.T) {
	held := died(t, options(), func(v *vault.Vault) {
		require.Len(t, v.Common(), 4096)
		copy(v.Common(), "counters")
	})
	v, _ := restore(t, options(), held)
	assert.Equal(t, "counters", string(v.Common()[:8]))
}

func TestNotesAreTheNextProcesssToo(t *testing.T) {
	longest := bytes.Repeat([]byte("x"), vault.MaxNote)
	held := died(t, options(), func(v *vault.Vault) {
		w := v.Writer(0)
		for i, note := range [][]byte{[]byte("redis"), []byte("dropped"), {}, longest} {
			n, ok := w.Note(note)
			require.True(t, ok)
			assert.EqualValues(t, i, n)
			assert.Equal(t, note, v.Note(n))
		}
		w.DropNote(1)
		w.DropNote(1 << 31)
		_, ok := w.Note(append(longest, 'x'))
		assert.False(t, ok)
	})
	v, _ := restore(t, options(), held)
	want := map[uint32][]byte{0: []byte("redis"), 2: {}, 3: longest}
	assert.Equal(t, want, maps.Collect(v.Notes()))
	assert.Nil(t, v.Note(1))
	assert.Nil(t, v.Note(1<<31))
	n, ok := v.Writer(0).Note([]byte("web"))
	require.True(t, ok)
	assert.EqualValues(t, 1, n, "the first that is free")
	assert.Equal(t, "redis", string(v.Note(0)))
}

func TestNotesRunOut(t *testing.T) {
	v := newVault(t, options())
	w := v.Writer(0)
	n := 0
	for ; ; n++ {
		if _, ok := w.Note([]byte("x")); !ok {
			break
		}
	}
	assert.Equal(t, 8192, n)
	w.DropNote(77)
	i, ok := w.Note([]byte("y"))
	assert.True(t, ok)
	assert.EqualValues(t, 77, i)
}

func TestSlabsOfAFormerLifeAreThereUntilItIsSettled(t *testing.T) {
	o := options()
	var first uint32
	held := died(t, o, func(v *vault.Vault) {
		memory, n, err := v.Writer(0).Slab()
		require.NoError(t, err)
		require.Len(t, memory, 1<<20)
		copy(memory, "owed")
		first = n
	})
	for range 5 { // a life needs one slab, and all lives need two
		v, _, err := vault.Restore(o, held)
		require.NoError(t, err)
		memory, second, err := v.Writer(0).Slab()
		require.NoError(t, err)
		assert.NotEqual(t, first, second)
		assert.Less(t, second, uint32(2))
		assert.Equal(t, "owed", string(v.Slab(first)[:4]))
		copy(memory, v.Slab(first)[:4])
		assert.Nil(t, v.Slab(1<<31))
		require.NoError(t, v.Settle())
		assert.Nil(t, v.Slab(first))
		first, held = second, left(t, v)
	}
	closeHeld(t, held)
}

func TestASlabIsZeroAfterAFormerLife(t *testing.T) {
	held := died(t, options(), func(v *vault.Vault) {
		memory, _, err := v.Writer(0).Slab()
		require.NoError(t, err)
		copy(memory, bytes.Repeat([]byte{1}, len(memory)))
	})
	v, _ := restore(t, options(), held)
	before := v.Stats().Bytes
	require.NoError(t, v.Settle())
	assert.Equal(t, int64(1<<20), before-v.Stats().Bytes, "the memory is given back")
	memory, _, err := v.Writer(0).Slab()
	require.NoError(t, err)
	assert.Equal(t, make([]byte, 1<<20), memory)
}

func TestSlabsRunOut(t *testing.T) {
	v := newVault(t, options())
	for range 4096 {
		_, _, err := v.Writer(0).Slab()
		require.NoError(t, err)
	}
	_, _, err := v.Writer(0).Slab()
	assert.ErrorIs(t, err, vault.ErrNoSlab)
}
