package fdstore_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
)

const socketVariable = "FDSTORE_TEST_SOCKET"

func init() {
	children["generations"] = func() int {
		if err := pushGenerations(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return 1
	}
}

// pushGenerations replaces one set of descriptors by the next, for ever. The state
// of a set is pushed last and removed first.
func pushGenerations() error {
	ctx := context.Background()
	store, err := fdstore.Open(ctx, &storetest.Notifier{Socket: os.Getenv(socketVariable)}, fdstore.Returned{}, fdstore.Options{})
	if err != nil {
		return err
	}
	var before []string
	for i := 1; ; i++ {
		var set []fdstore.Entry
		for _, name := range []string{"socket/a", "socket/b", "state/"} {
			fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
			if err != nil {
				return err
			}
			set = append(set, fdstore.Entry{Name: fmt.Sprint(name, i), FD: fd})
		}
		if err := store.Push(ctx, set...); err != nil {
			return err
		}
		fmt.Println("generation", i)
		if err := store.Remove(ctx, before...); err != nil {
			return err
		}
		before = []string{set[2].Name, set[1].Name, set[0].Name}
		for _, e := range set {
			_ = unix.Close(e.FD)
		}
	}
}

func TestKilledAtAnyMomentASetIsWholeOrHasNoState(t *testing.T) {
	for range 12 {
		manager := storetest.Start(t, 7) // two sets and the canary
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childVariable+"=generations", socketVariable+"="+manager.Socket())
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		_, err = bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		time.Sleep(time.Duration(rand.IntN(5_000)) * time.Microsecond) // a random moment, and not a wait
		require.NoError(t, child.Process.Kill())
		_ = child.Wait()

		require.NoError(t, manager.Notifier().Barrier(t.Context()))
		held := manager.Pass()
		back := fdstore.Reconcile(held, ours)
		_, err = fdstore.Open(t.Context(), manager.Notifier(), back, fdstore.Options{})
		require.NoError(t, err)
		closeAll(t, held)
		assert.Empty(t, back.Foreign)
		kept := settled(t, manager)
		whole := 0
		for _, name := range kept {
			if set, ok := strings.CutPrefix(name, "state/"); ok {
				whole++
				assert.Subset(t, kept, []string{"socket/a" + set, "socket/b" + set}, name)
			}
		}
		assert.NotZero(t, whole, "%v", kept)
	}
}
