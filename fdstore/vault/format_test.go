package vault_test

import (
	"encoding/binary"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore/vault"
)

func TestVersionsOfTheUsersFormat(t *testing.T) {
	const n = 4
	for _, tt := range []struct {
		name       string
		writes     vault.Options
		reads      vault.Options
		unreadable bool
	}{
		{"the same", vault.Options{Format: n}, vault.Options{Format: n, Reads: n}, false},
		{"upgrade", vault.Options{Format: n}, vault.Options{Format: n + 1, Reads: n}, false},
		{"upgrade that reads no old ones", vault.Options{Format: n}, vault.Options{Format: n + 1, Reads: n + 1}, true},
		{"downgrade", vault.Options{Format: n + 1, ReadBy: n}, vault.Options{Format: n}, false},
		{"downgrade, and not meant for old ones", vault.Options{Format: n + 1}, vault.Options{Format: n}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c *net.TCPConn
			held := died(t, tt.writes, func(v *vault.Vault) { c = keepClient(t, v, "x") })
			if !tt.unreadable {
				_, found := restore(t, tt.reads, held)
				assert.Len(t, ids(found), 1)
				return
			}
			_, found, err := vault.Restore(tt.reads, held)
			require.ErrorContains(t, err, "and this program reads")
			assert.Empty(t, found.Kept)
			assert.Len(t, found.Lost, 1)
			assertReset(t, c)
		})
	}
}

func TestARecordOfANewerFormatIsOneLostConnection(t *testing.T) {
	older := vault.Options{Format: 1}
	var old, recent *net.TCPConn
	held := died(t, older, func(v *vault.Vault) { old = keepClient(t, v, "old") })
	// The new version adds its own, and dies before it has settled.
	v, found, err := vault.Restore(vault.Options{Format: 2}, held)
	require.NoError(t, err)
	closeKept(found)
	recent = keepClient(t, v, "recent")
	v, found = restore(t, older, left(t, v))
	require.Len(t, ids(found), 1)
	assert.Equal(t, "old", string(found.Kept[0].Memory[:3]))
	require.Len(t, found.Lost, 1)
	assert.Equal(t, "recent", string(found.Lost[0].Memory[:6]))
	assert.Contains(t, found.Lost[0].Reason, "another version wrote it: its slot has format 2")
	assertReset(t, recent)
	_, err = old.Write([]byte("x"))
	require.NoError(t, err)
	assert.Equal(t, 1, v.Stats().Kept)
}

func TestARecordOfANewerVaultIsOneLostConnection(t *testing.T) {
	var lost *net.TCPConn
	held := died(t, options(), func(v *vault.Vault) {
		keepClient(t, v, "lost")
		v.Lose(0)
		var server *sock.FD
		lost, server = client(t)
		// What a version 2 would write that no version 1 can read, of the same slot.
		newer := make([]byte, 48)
		binary.NativeEndian.PutUint32(newer, 0x7666_6468)
		binary.NativeEndian.PutUint16(newer[4:], 2)
		binary.NativeEndian.PutUint16(newer[6:], 2)
		binary.NativeEndian.PutUint64(newer[8:], v.Serial(0))
		require.NoError(t, v.SendRecord(newer, 0, 0, server.Raw()))
		require.NoError(t, server.Close())
		keepClient(t, v, "kept")
	})
	v, found := restore(t, options(), held)
	require.Len(t, found.Lost, 1)
	assert.Equal(t, "lost", string(found.Lost[0].Memory[:4]))
	assert.Contains(t, found.Lost[0].Reason, "the record has format 2")
	require.Len(t, ids(found), 1)
	assert.Equal(t, "kept", string(found.Kept[0].Memory[:4]))
	assert.Zero(t, v.Serial(0))
	assertReset(t, lost)
}

// A newer version may say more in a record, which this one passes on.
func TestARecordThatSaysMoreIsMovedWhole(t *testing.T) {
	newer := make([]byte, 48)
	_, server := client(t)
	held := died(t, options(), func(v *vault.Vault) {
		keepClient(t, v, "kept")
		v.Lose(0)
		binary.NativeEndian.PutUint32(newer, 0x7666_6468)
		binary.NativeEndian.PutUint16(newer[4:], 2)
		binary.NativeEndian.PutUint16(newer[6:], 1)
		binary.NativeEndian.PutUint64(newer[8:], v.Serial(0))
		binary.NativeEndian.PutUint32(newer[20:], 1)
		binary.NativeEndian.PutUint32(newer[24:], 1)
		binary.NativeEndian.PutUint32(newer[28:], 1)
		copy(newer[32:], "more")
		require.NoError(t, v.SendRecord(newer, 0, 0, server.Raw()))
		require.NoError(t, server.Close())
		keepClient(t, v, "dead")
	})
	v, found := restore(t, options(), held)
	require.Len(t, found.Kept, 2)
	v.Writer(0).Drop(found.Kept[1].Slot) // what lives is in its way
	v.Sweep()
	records, err := v.Records()
	require.NoError(t, err)
	assert.Equal(t, [][]byte{newer}, records)
}

func TestASettledVaultHasTheFormatOfItsProgram(t *testing.T) {
	held := died(t, vault.Options{Format: 1}, func(*vault.Vault) {})
	v, _, err := vault.Restore(vault.Options{Format: 2}, held)
	require.NoError(t, err)
	require.NoError(t, v.Settle())
	_, _, err = vault.Restore(vault.Options{Format: 1}, left(t, v))
	require.ErrorContains(t, err, "its content has format 2")
}

func TestTheVaultsOwnFormat(t *testing.T) {
	for _, tt := range []struct {
		format, readBy uint32
		ok             bool
	}{{1, 1, true}, {2, 1, true}, {2, 2, false}, {0, 0, false}} {
		held := died(t, options(), func(v *vault.Vault) {
			fill(t, v.Writer(0), 1, eventfd(t))
			binary.NativeEndian.PutUint32(v.Header()[vault.AtFormat:], tt.format)
			binary.NativeEndian.PutUint32(v.Header()[vault.AtReadableBy:], tt.readBy)
		})
		if tt.ok {
			_, found := restore(t, options(), held)
			assert.Len(t, ids(found), 1)
			continue
		}
		_, found, err := vault.Restore(options(), held)
		require.ErrorContains(t, err, "this one knows 1 to 1")
		assert.Len(t, found.Lost, 1)
	}
}
