package fdstore_test

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
)

func procPath(h fdstore.Held) string {
	return fmt.Sprintf("/proc/self/fd/%d", h.FD.Raw())
}

func TestAManagerWithoutAStoreIsFoundOut(t *testing.T) {
	t.Run("FileDescriptorStoreMax=0", func(t *testing.T) {
		manager := storetest.Start(t, 0)
		_, err := fdstore.Open(t.Context(), manager.Notifier(), fdstore.Returned{}, fdstore.Options{Max: 7})
		require.ErrorIs(t, err, fdstore.ErrNoStore)
	})
	t.Run("it knows none", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "notify")
		manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path})
		require.NoError(t, err)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for _, err := manager.Read(make([]byte, 100)); err == nil; _, err = manager.Read(make([]byte, 100)) {
			}
		}()
		_, err = fdstore.Open(t.Context(), &storetest.Notifier{Socket: path}, fdstore.Returned{}, fdstore.Options{})
		require.ErrorIs(t, err, fdstore.ErrNoStore)
		require.NoError(t, manager.Close())
		<-ended
	})
	t.Run("it is gone", func(t *testing.T) {
		_, err := fdstore.Open(t.Context(), &storetest.Notifier{Socket: "/nonexistent"}, fdstore.Returned{}, fdstore.Options{})
		require.ErrorIs(t, err, unix.ENOENT)
		require.EqualError(t, err, "open the descriptor store: push to the descriptor store: no such file or directory")
	})
}

func TestAStoreThatCameBackFullIsAStore(t *testing.T) {
	manager := storetest.Start(t, 4)
	list := entries(t, 0, 3)
	require.NoError(t, open(t, manager.Notifier(), fdstore.Options{}).Push(t.Context(), list...))
	manager.Resize(3)

	held := manager.Pass()
	defer closeAll(t, held)
	store, err := fdstore.Open(t.Context(), manager.Notifier(), fdstore.Reconcile(held, anyName), fdstore.Options{Max: 3})
	require.NoError(t, err)
	assert.Equal(t, names(list), store.Names())
	assert.Equal(t, 3, store.Max())
	var full *fdstore.FullError
	require.ErrorAs(t, store.Push(t.Context(), entries(t, 10, 1)...), &full)
	require.NoError(t, store.Remove(t.Context(), names(list[:2])...))
	require.NoError(t, store.Push(t.Context(), entries(t, 10, 1)...))
}

func TestOpenRemovesWhatIsStaleAndNothingElse(t *testing.T) {
	manager := storetest.Start(t, 10)
	notify := manager.Notifier()
	push := func(name string, fd int) {
		t.Helper()
		require.NoError(t, notify.SendFDs([]int{fd}, "FDSTORE=1", "FDNAME="+name, "FDPOLL=0"))
	}
	push("socket/1", eventfd(t))
	push("stored", eventfd(t))
	push("stored", eventfd(t))
	push("canary/x", eventfd(t))
	require.NoError(t, notify.Barrier(t.Context()))

	held := manager.Pass()
	// systemd keeps a file once; another manager may not.
	again := hold(t, "socket/1")(unix.FcntlInt(uintptr(held[3].FD.Raw()), unix.F_DUPFD_CLOEXEC, 0))
	back := fdstore.Reconcile(append(held, again), ours)
	defer closeAll(t, back.Known)
	defer closeAll(t, back.Foreign)
	store, err := fdstore.Open(t.Context(), notify, back, fdstore.Options{Max: 10})
	require.NoError(t, err)
	assert.Equal(t, []string{"socket/1", "stored", "stored"}, settled(t, manager))
	assert.Equal(t, []string{"socket/1", "stored"}, store.Names())
	assert.Equal(t, 4, store.Len(), "what shares the name of another stays with it")
	require.NoError(t, store.Remove(t.Context(), "socket/1"))
	assert.Equal(t, 2, store.Len())
}
