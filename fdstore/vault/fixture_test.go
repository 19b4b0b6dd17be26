package vault_test

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
	"github.com/holdfast-proxy/holdfast/fdstore/vault"
)

// soon is for how long a test waits for what happens on its own.
const soon = 20 * time.Second

func options() vault.Options {
	return vault.Options{Slots: 4096, InFlight: 8000, Format: 1}
}

func newVault(t testing.TB, o vault.Options) *vault.Vault {
	t.Helper()
	v, err := vault.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, v.Close()) })
	return v
}

// copies are descriptors as a store would give them to the next process.
func copies(t testing.TB, files []fdstore.Entry) []fdstore.Held {
	t.Helper()
	held := make([]fdstore.Held, len(files))
	for i, f := range files {
		raw, err := unix.FcntlInt(uintptr(f.FD), unix.F_DUPFD_CLOEXEC, 3)
		require.NoError(t, err)
		held[i] = fdstore.Held{Name: f.Name, FD: sock.NewFD(raw)}
	}
	return held
}

// left is what the next process gets of a vault whose process is gone.
func left(t testing.TB, v *vault.Vault) []fdstore.Held {
	t.Helper()
	files, release := v.Files()
	held := copies(t, files)
	release()
	require.NoError(t, v.Close())
	return held
}

// died makes a vault, has it kept what keep says, and is what it leaves.
func died(t testing.TB, o vault.Options, keep func(*vault.Vault)) []fdstore.Held {
	t.Helper()
	v, err := vault.New(o)
	require.NoError(t, err)
	keep(v)
	return left(t, v)
}

func restore(t testing.TB, o vault.Options, held []fdstore.Held) (*vault.Vault, vault.Found) {
	t.Helper()
	v, found, err := vault.Restore(o, held)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, v.Close()) })
	for _, k := range found.Kept {
		ownedRaw(t, k.FDs)
	}
	return v, found
}

// ownedRaw closes descriptors at the end of the test.
func ownedRaw(t testing.TB, raws [2]int32) {
	t.Helper()
	for _, raw := range raws {
		if raw >= 0 {
			fd := sock.NewFD(int(raw))
			t.Cleanup(func() { assert.NoError(t, fd.Close()) })
		}
	}
}

// conn is a connection with both its sockets. The test is at the far ends.
type conn struct {
	near, far [2]*sock.FD
}

func newConn(t testing.TB) *conn {
	t.Helper()
	c := &conn{}
	for i := range c.near {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		require.NoError(t, err)
		c.near[i], c.far[i] = sock.NewFD(pair[0]), sock.NewFD(pair[1])
	}
	t.Cleanup(func() {
		c.closeNear()
		for _, fd := range c.far {
			_ = fd.Close()
		}
	})
	return c
}

func (c *conn) closeNear() {
	for _, fd := range c.near {
		_ = fd.Close()
	}
}

func (c *conn) raw() (a, b int32) {
	return int32(c.near[0].Raw()), int32(c.near[1].Raw())
}

// passes checks that the descriptors are those of the near ends.
func (c *conn) passes(t testing.TB, fds [2]int32) {
	t.Helper()
	for i, raw := range fds {
		_, err := unix.Write(int(raw), []byte{byte('a' + i)})
		require.NoError(t, err)
		var b [2]byte
		n, err := unix.Read(c.far[i].Raw(), b[:])
		require.NoError(t, err)
		require.Equal(t, []byte{byte('a' + i)}, b[:n])
	}
}

// isGone tells whether nobody has the near ends any more.
func (c *conn) isGone(t testing.TB) bool {
	t.Helper()
	for _, fd := range c.far {
		var b [1]byte
		n, err := unix.Read(fd.Raw(), b[:])
		if err != nil {
			require.ErrorIs(t, err, unix.EAGAIN)
			return false
		}
		require.Zero(t, n)
	}
	return true
}

// keep keeps a connection under a number, and gives its near ends away to the vault.
func keep(t testing.TB, w *vault.Writer, id uint64, c *conn) (slot uint32) {
	t.Helper()
	slot, memory, ok := w.Take()
	require.True(t, ok)
	binary.NativeEndian.PutUint64(memory, id)
	a, b := c.raw()
	require.True(t, w.Keep(slot, a, b))
	c.closeNear()
	return slot
}

func idOf(k vault.Kept) uint64 {
	return binary.NativeEndian.Uint64(k.Memory)
}

func ids(found vault.Found) []uint64 {
	list := make([]uint64, len(found.Kept))
	for i, k := range found.Kept {
		list[i] = idOf(k)
	}
	slices.Sort(list)
	return list
}

// fill keeps n times the same descriptor, each time in a slot of its own, and waits
// for room if it has to.
func fill(t testing.TB, w *vault.Writer, n int, fd int) (slots []uint32) {
	t.Helper()
	var slot uint32
	try := func() bool {
		var ok bool
		slot, _, ok = w.Take()
		return ok && w.Keep(slot, int32(fd), -1)
	}
	for range n {
		if !try() {
			require.Eventually(t, try, soon, time.Millisecond)
		}
		slots = append(slots, slot)
	}
	return slots
}

func eventfd(t testing.TB) int {
	t.Helper()
	raw, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	require.NoError(t, err)
	fd := sock.NewFD(raw)
	t.Cleanup(func() { assert.NoError(t, fd.Close()) })
	return raw
}

func open(t testing.TB, m *storetest.Manager, held []fdstore.Held) (*fdstore.Store, []fdstore.Held) {
	t.Helper()
	back := fdstore.Reconcile(held, vault.IsName)
	require.Empty(t, back.Foreign)
	s, err := fdstore.Open(t.Context(), m.Notifier(), back, fdstore.Options{})
	require.NoError(t, err)
	return s, back.Known
}
