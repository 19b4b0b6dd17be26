package vault_test

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/vault"
)

// client is a TCP client and the other end of its connection, which a test keeps.
func client(t *testing.T) (c *net.TCPConn, server *sock.FD) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	dialled, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = dialled.Close() })
	accepted, err := l.Accept()
	require.NoError(t, err)
	defer accepted.Close()
	raw, err := accepted.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		n, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
		require.NoError(t, err)
		server = sock.NewFD(n)
	}))
	return dialled.(*net.TCPConn), server
}

// keepClient keeps a TCP connection, and gives it away to the vault.
func keepClient(t *testing.T, v *vault.Vault, memory string) *net.TCPConn {
	t.Helper()
	c, server := client(t)
	slot, m, ok := v.Writer(0).Take()
	require.True(t, ok)
	copy(m, memory)
	require.True(t, v.Writer(0).Keep(slot, int32(server.Raw()), -1))
	require.NoError(t, server.Close())
	return c
}

func assertReset(t *testing.T, c *net.TCPConn) {
	t.Helper()
	_, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, unix.ECONNRESET, "an end in order would pass for the end of the stream")
}

func TestALifeGoesOnWhereTheFormerOneEnded(t *testing.T) {
	conns := []*conn{newConn(t), newConn(t)}
	held := died(t, options(), func(v *vault.Vault) { keep(t, v.Writer(0), 0, conns[0]) })
	v, found, err := vault.Restore(options(), held)
	require.NoError(t, err)
	require.Len(t, ids(found), 1)
	closeKept(found) // the vault has it still
	keep(t, v.Writer(0), 1, conns[1])
	held = left(t, v)
	for range 3 { // restored and killed, restored and killed
		v, found, err = vault.Restore(options(), held)
		require.NoError(t, err)
		assert.Equal(t, []uint64{0, 1}, ids(found))
		closeKept(found)
		held = left(t, v)
	}
	_, found = restore(t, options(), held)
	for _, k := range found.Kept {
		conns[idOf(k)].passes(t, k.FDs)
	}
}

func TestWhatWasSentTwiceIsFoundOnce(t *testing.T) {
	c := newConn(t)
	held := died(t, options(), func(v *vault.Vault) {
		keep(t, v.Writer(0), 5, c)
		v.SendAgain()
		v.SendAgain()
		assert.Equal(t, 3, v.Queued())
	})
	v, found := restore(t, options(), held)
	require.Equal(t, []uint64{5}, ids(found))
	c.passes(t, found.Kept[0].FDs)
	v.Sweep()
	assert.Equal(t, 1, v.Queued())
	c.passes(t, found.Kept[0].FDs)
	assert.Equal(t, 2, v.Stats().InFlight)
}

func TestASlotWithoutARecordIsFree(t *testing.T) {
	held := died(t, options(), func(v *vault.Vault) {
		fill(t, v.Writer(0), 2, eventfd(t))
		v.Lose(0)
	})
	v, found := restore(t, options(), held)
	assert.Empty(t, found.Lost)
	require.Len(t, ids(found), 1)
	slot, _, ok := v.Writer(0).Take()
	require.True(t, ok)
	assert.Zero(t, slot)
}

func TestMessagesThatAreNoRecordsAreResetAndNamed(t *testing.T) {
	var strangers []*net.TCPConn
	c := newConn(t)
	held := died(t, options(), func(v *vault.Vault) {
		keep(t, v.Writer(0), 0, c)
		for _, message := range [][]byte{[]byte("x"), make([]byte, 32), make([]byte, 10_000)} {
			stranger, server := client(t)
			require.NoError(t, v.SendRecord(message, 0, 0, server.Raw()))
			require.NoError(t, server.Close())
			strangers = append(strangers, stranger)
		}
		many := make([]int, 100)
		for i := range many {
			many[i] = eventfd(t)
		}
		require.NoError(t, v.SendRecord([]byte("more than a record has"), 0, 0, many...))
		require.NoError(t, v.SendRecord(nil, 1<<30, 1, many[0]), "a slot that is none")
		require.NoError(t, v.SendRecord(nil, 4, 1<<40, many[0]), "of a slot that somebody else has had")
		slot, _, ok := v.Writer(0).Take()
		require.True(t, ok)
		require.True(t, v.Writer(0).Keep(slot, int32(many[0]), -1), "after them")
	})
	v, found := restore(t, options(), held)
	assert.Len(t, ids(found), 2)
	require.Len(t, found.Lost, 5)
	for _, lost := range found.Lost {
		assert.Equal(t, "it is not a record of a vault", lost.Reason)
	}
	for _, stranger := range strangers {
		assertReset(t, stranger)
	}
	v.Sweep()
	assert.Equal(t, 2, v.Queued())
	assert.EqualValues(t, 1<<40+1, serialOfNext(t, v), "no serial is used again")
}

func serialOfNext(t *testing.T, v *vault.Vault) uint64 {
	t.Helper()
	return v.Serial(fill(t, v.Writer(0), 1, eventfd(t))[0])
}

// What ends each process that restores would keep a service from running for ever.
func TestAVaultThatIsNeverSettledIsGivenUp(t *testing.T) {
	o := options()
	o.Attempts = 3
	var c *net.TCPConn
	held := died(t, o, func(v *vault.Vault) { c = keepClient(t, v, "kept") })
	live := func(dies bool, ago time.Duration) {
		v, found, err := vault.Restore(o, held)
		require.NoError(t, err)
		require.Len(t, ids(found), 1)
		closeKept(found)
		unsettled, tried := v.Header()[vault.AtUnsettled:], v.Header()[vault.AtTried:]
		if dies { // what Close takes back
			binary.NativeEndian.PutUint32(unsettled, binary.NativeEndian.Uint32(unsettled)+1)
		}
		binary.NativeEndian.PutUint64(tried, binary.NativeEndian.Uint64(tried)-uint64(ago))
		held = left(t, v)
	}
	for range 2 * o.Attempts { // in good order
		live(false, time.Hour)
	}
	for range 2 * o.Attempts { // within a moment, which says nothing
		live(true, 0)
	}
	v, found, err := vault.Restore(o, held)
	require.NoError(t, err)
	closeKept(found)
	require.NoError(t, v.Settle()) // now it begins to count anew
	held = left(t, v)
	for range o.Attempts {
		live(true, 40*time.Second)
	}
	_, found, err = vault.Restore(o, held)
	require.ErrorIs(t, err, vault.ErrUnreadable)
	assert.ErrorContains(t, err, "3 processes have died over restoring it, in 2m0s")
	require.Len(t, found.Lost, 1)
	assertReset(t, c)
}

func TestATableThatCannotBeReadLosesAllAndSaysSo(t *testing.T) {
	memfd := func(content []byte) *sock.FD {
		fd, err := fdstore.Memfd("x", content)
		require.NoError(t, err)
		return fd
	}
	for name, replace := range map[string]func(fdstore.Held) []fdstore.Held{
		"missing": func(fdstore.Held) []fdstore.Held { return nil },
		"empty":   func(h fdstore.Held) []fdstore.Held { return []fdstore.Held{{Name: h.Name, FD: memfd(nil)}} },
		"garbage": func(h fdstore.Held) []fdstore.Held {
			return []fdstore.Held{{Name: h.Name, FD: memfd([]byte("garbage"))}}
		},
		"an event": func(h fdstore.Held) []fdstore.Held {
			return []fdstore.Held{{Name: h.Name, FD: sock.NewFD(newEventfd(t))}}
		},
		"cut off":          func(h fdstore.Held) []fdstore.Held { return []fdstore.Held{{Name: h.Name, FD: memfd(headOf(t, h))}} },
		"under other name": func(h fdstore.Held) []fdstore.Held { return []fdstore.Held{{Name: "vault/tables", FD: h.FD}} },
	} {
		t.Run(name, func(t *testing.T) {
			var c *net.TCPConn
			held := died(t, options(), func(v *vault.Vault) { c = keepClient(t, v, "x") })
			table := held[0]
			others := replace(table)
			if len(others) == 0 || others[0].FD != table.FD {
				require.NoError(t, table.FD.Close())
			}
			v, found, err := vault.Restore(options(), append(others, held[1:]...))
			require.ErrorIs(t, err, vault.ErrUnreadable)
			assert.Nil(t, v)
			require.Len(t, found.Lost, 1)
			assert.Contains(t, found.Lost[0].Reason, "the vault's table cannot be read")
			assertReset(t, c)
		})
	}
}

func newEventfd(t *testing.T) int {
	t.Helper()
	raw, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	require.NoError(t, err)
	return raw
}

// headOf is the first page of a file.
func headOf(t *testing.T, h fdstore.Held) []byte {
	t.Helper()
	b := make([]byte, 4096)
	_, err := unix.Pread(h.FD.Raw(), b, 0)
	require.NoError(t, err)
	return b
}

func TestGarbageBehindAGoodHeaderDoesNoHarm(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		held := died(t, vault.Options{Slots: 100, InFlight: 1000}, func(v *vault.Vault) {
			fill(t, v.Writer(0), 50, eventfd(t))
			parts := v.Parts()
			for i := range parts {
				if random.IntN(3) == 0 { // some zeros are left
					parts[i] = byte(random.Uint32())
				}
			}
			binary.NativeEndian.PutUint32(v.Header()[vault.AtUsedSlots:], random.Uint32())
		})
		v, found, err := vault.Restore(vault.Options{InFlight: 1000}, held)
		require.NoError(t, err)
		closeKept(found) // a few slots have their serial still
		assert.Empty(t, found.Lost)
		for i, note := range v.Notes() {
			assert.LessOrEqual(t, len(note), vault.MaxNote, i)
		}
		require.NoError(t, v.Settle())
		fill(t, v.Writer(0), 100-len(found.Kept), eventfd(t))
		require.NoError(t, v.Close())
	}
}

func TestDamagedCountersDoNoHarm(t *testing.T) {
	for _, damage := range []byte{0, 0xff} {
		held := died(t, options(), func(v *vault.Vault) {
			fill(t, v.Writer(0), 10, eventfd(t))
			for _, at := range []int{vault.AtSerial, vault.AtSerial + 4, vault.AtUsedSlots, vault.AtSegment} {
				copy(v.Header()[at:], []byte{damage, damage, damage, damage})
			}
		})
		v, found := restore(t, options(), held)
		assert.Len(t, ids(found), 10)
		assert.EqualValues(t, 11, serialOfNext(t, v))
		fill(t, v.Writer(0), 600, eventfd(t)) // into a new segment, too
		_, found = restore(t, options(), left(t, v))
		assert.Len(t, ids(found), 611)
	}
}

func TestAMissingEndOfASegment(t *testing.T) {
	for _, tt := range []struct {
		end        string
		kept, lost int
	}{{"vault/1/in", 2, 0}, {"vault/1/out", 0, 2}, {"vault/2/in", 2, 0}, {"vault/2/out", 2, 0}} {
		t.Run(tt.end, func(t *testing.T) {
			held := died(t, options(), func(v *vault.Vault) {
				fill(t, v.Writer(0), 2, eventfd(t)) // both in the first
			})
			held = slices.DeleteFunc(held, func(h fdstore.Held) bool { return h.Name == tt.end && h.FD.Close() == nil })
			v, found, err := vault.Restore(options(), held)
			require.NoError(t, err)
			assert.Len(t, ids(found), tt.kept)
			assert.Len(t, found.Lost, tt.lost)
			closeKept(found)
			fill(t, v.Writer(0), 1, eventfd(t))

			// What can be received only is emptied into others, and given up.
			v.Sweep()
			v.Shrink(t.Context())
			assert.Equal(t, tt.kept+1, v.Queued())
			files, release := v.Files()
			release()
			for _, f := range files {
				assert.NotContains(t, f.Name, tt.end[:len("vault/1/")])
			}
			_, found = restore(t, options(), left(t, v))
			assert.Len(t, ids(found), tt.kept+1)
			assert.Empty(t, found.Lost)
		})
	}
}

func TestOtherFilesAreClosed(t *testing.T) {
	held := died(t, options(), func(v *vault.Vault) { fill(t, v.Writer(0), 1, eventfd(t)) })
	held = append(held,
		fdstore.Held{Name: "vault/table", FD: sock.NewFD(newEventfd(t))}, // a second one
		fdstore.Held{Name: "vault/1/in", FD: sock.NewFD(newEventfd(t))},
		fdstore.Held{Name: "socket/1", FD: sock.NewFD(newEventfd(t))})
	_, found := restore(t, options(), held) // a leak fails the run
	assert.Len(t, ids(found), 1)
}

func TestNothingIsFoundInAnEmptyVault(t *testing.T) {
	_, found := restore(t, options(), died(t, options(), func(*vault.Vault) {}))
	assert.Empty(t, found)
	_, found, err := vault.Restore(options(), nil)
	require.ErrorContains(t, err, "it is missing")
	assert.Empty(t, found)
}

func TestAProcessThatMayNotOpenEnoughResetsTheRestAndNamesIt(t *testing.T) {
	const kept = 10
	var clients []*net.TCPConn
	held := died(t, options(), func(v *vault.Vault) {
		for i := range kept {
			clients = append(clients, keepClient(t, v, string(rune('0'+i))))
		}
	})
	// Room for some, the two in reserve and the two segments that the vault adds.
	var found vault.Found
	var v *vault.Vault
	var err error
	withSome(t, 2+7, func() { v, found, err = vault.Restore(options(), held) })
	require.NoError(t, err)
	defer func() { require.NoError(t, v.Close()) }()
	defer closeKept(found)
	require.NotEmpty(t, found.Lost)
	assert.Len(t, ids(found), kept-len(found.Lost))
	for _, lost := range found.Lost {
		assert.Contains(t, lost.Reason, "may not open more descriptors")
		assertReset(t, clients[lost.Memory[0]-'0'])
	}
	for _, k := range found.Kept {
		_, err := unix.Write(int(k.FDs[0]), []byte("x"))
		require.NoError(t, err)
		_, err = io.ReadFull(clients[k.Memory[0]-'0'], make([]byte, 1))
		require.NoError(t, err)
	}
	assert.Equal(t, len(found.Kept), v.Stats().Kept)
	require.Eventually(t, func() bool { v.Sweep(); return v.Queued() == len(found.Kept) }, soon, time.Millisecond)
}

func TestAVaultWhoseOwnerLivesIsNotRestored(t *testing.T) {
	for name, o := range map[string]vault.Options{"": options(), "of another version": {Format: 7, Reads: 7}} {
		t.Run(name, func(t *testing.T) {
			v, err := vault.New(options())
			require.NoError(t, err)
			client := keepClient(t, v, "kept")
			files, release := v.Files()
			held := copies(t, files)
			assert.True(t, vault.IsOwned(held))
			_, found, err := vault.Restore(o, copies(t, files))
			assert.Zero(t, vault.Discard(copies(t, files)))
			release()
			require.ErrorIs(t, err, vault.ErrOwned)
			assert.Empty(t, found)
			require.NoError(t, v.Close())
			assert.False(t, vault.IsOwned(held))
			_, found = restore(t, options(), held)
			require.Len(t, found.Kept, 1)
			_, err = unix.Write(int(found.Kept[0].FDs[0]), []byte("x"))
			require.NoError(t, err)
			_, err = io.ReadFull(client, make([]byte, 1))
			require.NoError(t, err, "nothing was done to it")
		})
	}
}

// Each would keep the other from a start.
func TestTwoWhoAskForTheOwnerDoNotTakeEachOtherForIt(t *testing.T) {
	held := died(t, options(), func(*vault.Vault) {})
	defer closeHeld(t, held)
	var asked sync.WaitGroup
	for range 4 {
		asked.Go(func() {
			for range 500 {
				if !assert.False(t, vault.IsOwned(held)) {
					return
				}
			}
		})
	}
	asked.Wait()
}
