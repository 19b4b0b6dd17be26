package vault_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/vault"
)

func init() {
	children["hangs"] = func() error {
		v, err := vault.New(killOptions())
		if err != nil {
			return err
		}
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			return err
		}
		w := v.Writer(0)
		for range 700 {
			if slot, _, ok := w.Take(); !ok || !w.Keep(slot, int32(fd), -1) {
				return fmt.Errorf("kept %d only", v.Stats().Kept)
			}
		}
		fmt.Println("kept")
		return unix.Kill(os.Getpid(), unix.SIGSTOP)
	}
}

func TestAProcessThatHangsIsTakenOverWithAllThatItKeeps(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=hangs")
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	defer func() { _ = child.Wait() }()
	defer func() { _ = child.Process.Kill() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "kept\n", line)

	held := pull(t, child.Process.Pid)
	require.True(t, vault.IsOwned(held), "it only stands still")
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	_, found := restore(t, killOptions(), held)
	assert.Len(t, ids(found), 700)
	assert.Empty(t, found.Lost)
}

// pull takes the vault of a process out of it.
func pull(t *testing.T, pid int) (held []fdstore.Held) {
	t.Helper()
	pidfd, err := unix.PidfdOpen(pid, 0)
	require.NoError(t, err)
	defer unix.Close(pidfd)
	get := func(name string, fd int) {
		raw, err := unix.PidfdGetfd(pidfd, fd, 0)
		require.NoError(t, err)
		held = append(held, fdstore.Held{Name: name, FD: sock.NewFD(raw)})
	}
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	require.NoError(t, err)
	for _, path := range links {
		link, err := os.Readlink(path)
		require.NoError(t, err)
		if !vault.IsTable(link) {
			continue
		}
		table, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0) // its lock stays there
		require.NoError(t, err)
		held = append(held, fdstore.Held{Name: vault.TableName, FD: sock.NewFD(table)})
		files, owner, err := vault.Locate(table)
		require.NoError(t, err)
		assert.Equal(t, pid, owner)
		for _, f := range files {
			get(f.Name, f.FD)
		}
		return held
	}
	require.Fail(t, "it has no vault")
	return nil
}
