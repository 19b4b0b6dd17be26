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

func TestTheCounterOfANoteIsTheNextProcesssTooAndANewNotesIsZero(t *testing.T) {
	longest := bytes.Repeat([]byte("x"), vault.MaxNote)
	held := died(t, options(), func(v *vault.Vault) {
		w := v.Writer(0)
		first, _ := w.Note(longest)
		second, _ := w.Note([]byte("redis"))
		w.Counter(first).Add(-1)
		w.Counter(second).Add(4711)
		assert.Equal(t, longest, v.Note(first))
		w.DropNote(first)
	})
	v, _ := restore(t, options(), held)
	w := v.Writer(0)
	assert.EqualValues(t, 4711, w.Counter(1).Load())
	again, _ := w.Note(longest)
	require.Zero(t, again)
	assert.Zero(t, w.Counter(again).Load())
}

func TestLookingForNotesTakesNoMemory(t *testing.T) {
	held := died(t, options(), func(v *vault.Vault) {
		w := v.Writer(0)
		for range 3 * 4096 / 1024 {
			_, ok := w.Note([]byte("x"))
			require.True(t, ok)
		}
		w.DropNote(5)
	})
	v, _ := restore(t, options(), held)
	before := v.Stats().Bytes
	assert.Len(t, maps.Collect(v.Notes()), 11)
	assert.Equal(t, before, v.Stats().Bytes)
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

func TestASlabIsAdoptedFromLifeToLife(t *testing.T) {
	o := options()
	o.Writers = 2
	var owed, unused uint32
	held := died(t, o, func(v *vault.Vault) {
		var memory []byte
		var err error
		memory, owed, err = v.Writer(0).Slab()
		require.NoError(t, err)
		require.Len(t, memory, 1<<20)
		copy(memory, "owed")
		_, unused, err = v.Writer(1).Slab()
		require.NoError(t, err)
	})
	for range 5 {
		v, _, err := vault.Restore(o, held)
		require.NoError(t, err)
		_, another, err := v.Writer(0).Slab()
		require.NoError(t, err)
		assert.NotContains(t, []uint32{owed, unused}, another, "what is left is not given out")
		for i := range o.Writers {
			memory, ok := v.Writer(i).AdoptSlab(owed)
			require.True(t, ok)
			assert.Equal(t, "owed", string(memory[:4]))
		}
		for _, none := range []uint32{another, 1 << 31, 1<<32 - 1} {
			_, ok := v.Writer(0).AdoptSlab(none)
			assert.False(t, ok, "%d is of this life or none", none)
		}
		require.NoError(t, v.Settle())
		_, ok := v.Writer(0).AdoptSlab(owed)
		assert.False(t, ok, "it is too late")
		_, another, err = v.Writer(0).Slab()
		require.NoError(t, err)
		assert.Equal(t, unused, another, "what nobody adopted is free")
		held = left(t, v)
	}
	closeHeld(t, held)
}

// 5,000 streams that owe something are 80 MiB, and a service has a limit of memory.
func TestASlabThatIsAdoptedTakesNoMemory(t *testing.T) {
	var number uint32
	held := died(t, options(), func(v *vault.Vault) {
		memory, n, err := v.Writer(0).Slab()
		require.NoError(t, err)
		copy(memory, bytes.Repeat([]byte{1}, len(memory)))
		number = n
	})
	v, _ := restore(t, options(), held)
	before := v.Stats().Bytes
	memory, ok := v.Writer(0).AdoptSlab(number)
	require.True(t, ok)
	require.NoError(t, v.Settle())
	assert.Equal(t, before, v.Stats().Bytes)
	assert.Equal(t, bytes.Repeat([]byte{1}, len(memory)), memory)
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
