package vault_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
	"github.com/holdfast-proxy/holdfast/fdstore/vault"
)

// entry is a connection that is kept: its sockets are known by their cookies.
type entry struct {
	slot    uint32
	cookies []uint64
}

// model is what a vault has to have after any sequence of lives, in a store of its own.
type model struct {
	t       *testing.T
	manager *storetest.Manager
	vault   *vault.Vault
	open    []*sock.FD // of this life

	next uint64
	kept map[uint64]entry // by the number in the slot's memory
}

func TestAnySequenceOfLives(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		manager, err := storetest.New(fmt.Sprint("@vault-model-", os.Getpid()), 60)
		require.NoError(rt, err)
		defer manager.Close()
		m := &model{t: t, manager: manager, kept: map[uint64]entry{}}
		v, err := vault.New(m.options())
		require.NoError(rt, err)
		m.vault = v
		defer m.end(rt)
		store, _ := open(t, m.manager, nil)
		require.NoError(rt, v.Entrust(t.Context(), store))
		rt.Repeat(map[string]func(*rapid.T){
			"keep":   m.keep,
			"drop":   m.drop,
			"churn":  m.churn,
			"take":   m.take,
			"sweep":  func(*rapid.T) { m.vault.Sweep() },
			"twice":  func(*rapid.T) { m.vault.SendAgain() },
			"shrink": func(*rapid.T) { m.vault.Shrink(t.Context()) },
			"die":    m.die,
			"":       m.check,
		})
		m.die(rt)
	})
}

func (m *model) options() vault.Options {
	return vault.Options{Slots: 2000, Writers: 2, InFlight: 3000, Attempts: 1 << 20}
}

// cookie is how a socket is known wherever it is.
func cookie(t require.TestingT, fd int) uint64 {
	c, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	require.NoError(t, err)
	return c
}

func (m *model) socket(rt *rapid.T) *sock.FD {
	raw, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(rt, err)
	return sock.NewFD(raw)
}

func (m *model) keep(rt *rapid.T) {
	w := m.vault.Writer(rapid.IntRange(0, 1).Draw(rt, "writer"))
	fds := []*sock.FD{m.socket(rt)}
	a, b := int32(fds[0].Raw()), int32(-1)
	if rapid.Bool().Draw(rt, "two") {
		fds = append(fds, m.socket(rt))
		b = int32(fds[1].Raw())
	}
	e := entry{}
	for _, fd := range fds {
		e.cookies = append(e.cookies, cookie(rt, fd.Raw()))
		defer fd.Close() // the vault has it
	}
	slot, memory, ok := w.Take()
	require.True(rt, ok)
	m.next++
	binary.NativeEndian.PutUint64(memory, m.next)
	if w.Keep(slot, a, b) {
		e.slot = slot
		m.kept[m.next] = e
	}
}

func (m *model) drop(rt *rapid.T) {
	if len(m.kept) == 0 {
		return
	}
	id := rapid.SampledFrom(slices.Sorted(maps.Keys(m.kept))).Draw(rt, "connection")
	m.vault.Writer(0).Drop(m.kept[id].slot)
	delete(m.kept, id)
}

// churn fills the queues with what is dead at once.
func (m *model) churn(rt *rapid.T) {
	w := m.vault.Writer(0)
	fd := m.socket(rt)
	defer fd.Close()
	for range rapid.IntRange(1, 700).Draw(rt, "times") {
		if slot, _, ok := w.Take(); ok && w.Keep(slot, int32(fd.Raw()), -1) {
			m.vault.Writer(1).Drop(slot)
		}
	}
}

// take reserves a slot, which the next life has to free.
func (m *model) take(*rapid.T) {
	m.vault.Writer(0).Take()
}

func (m *model) die(rt *rapid.T) {
	m.end(rt)
	require.NoError(rt, m.manager.Notifier().Barrier(m.t.Context()))
	store, held := open(m.t, m.manager, m.manager.Pass())
	v, found, err := vault.Restore(m.options(), held)
	require.NoError(rt, err)
	m.vault = v
	assert.Empty(rt, found.Lost)
	lives := map[uint64]entry{}
	for _, k := range found.Kept {
		e := entry{slot: k.Slot}
		for _, raw := range k.FDs {
			if raw >= 0 {
				m.open = append(m.open, sock.NewFD(int(raw)))
				e.cookies = append(e.cookies, cookie(rt, int(raw)))
			}
		}
		assert.NotContains(rt, lives, idOf(k), "found twice")
		lives[idOf(k)] = e
	}
	require.Equal(rt, m.kept, lives)
	require.NoError(rt, v.Entrust(m.t.Context(), store))
}

func (m *model) end(rt *rapid.T) {
	require.NoError(rt, m.vault.Close())
	for _, fd := range m.open {
		require.NoError(rt, fd.Close())
	}
	m.open = nil
}

func (m *model) check(rt *rapid.T) {
	st := m.vault.Stats()
	require.Equal(rt, len(m.kept), st.Kept)
	require.LessOrEqual(rt, st.InFlight, 3000+2)
}
