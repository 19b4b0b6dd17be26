package vault_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore/vault"
)

const nobody = 65534

func init() {
	children["as nobody"] = keepAsNobody
}

// keepAsNobody keeps as many as the kernel lets it.
func keepAsNobody() error {
	const files = 300
	err := errors.Join(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: files, Max: files}),
		syscall.Setgid(nobody), syscall.Setuid(nobody))
	if err != nil {
		return err
	}
	v, err := vault.New(vault.Options{InFlight: 10 * files})
	if err != nil {
		return err
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return err
	}
	w := v.Writer(0)
	keep := func() (slot uint32, ok bool) {
		slot, _, ok = w.Take()
		return slot, ok && w.Keep(slot, int32(fd), int32(fd))
	}
	var slots []uint32
	for {
		slot, ok := keep()
		if !ok {
			break
		}
		slots = append(slots, slot)
	}
	if n := v.Stats().InFlight; n != 2*len(slots) || n < files || n > files+2 {
		return fmt.Errorf("%d descriptors in flight for %d connections", n, len(slots))
	}
	for _, slot := range slots {
		w.Drop(slot)
	}
	for deadline := time.Now().Add(soon); ; {
		if _, ok := keep(); ok {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("no room after all were dropped")
		}
	}
}

func TestBeyondTheKernelsLimitConnectionsAreNotKept(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to be somebody else")
	}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=as nobody")
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestByDefaultLessIsInFlightThanTheKernelLets(t *testing.T) {
	for limit, want := range map[uint64]int{400: 300, 1024: 768, 20_000: 20_000 - 2284} {
		withLimit(t, limit, func() {
			v := newVault(t, vault.Options{})
			require.Equal(t, want, v.InFlight())
		})
	}
}

func withLimit(t *testing.T, n uint64, f func()) {
	t.Helper()
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: before.Max}))
	defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before)) }()
	f()
}
