package image

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/vmtest/child"
	"github.com/holdfast-proxy/holdfast/vmtest/scratch"
)

// victimVar names the cache in which this test binary is to build an image, and
// then to be killed.
const victimVar = "VMTEST_IMAGE_VICTIM"

func TestMain(m *testing.M) {
	if cache := os.Getenv(victimVar); cache != "" {
		_, err := Ensure(context.Background(), cache, Releases[0], os.Stderr)
		panic(err)
	}
	os.Exit(m.Run())
}

func TestAKilledBuildLeavesNoMountAndNoProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("builds half an image")
	}
	cache := mountDir(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimVar+"="+cache)
	cmd.Stderr = os.Stderr
	victim, err := child.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(victim.Kill)
	builders := awaitMountsBelow(t, cache, victim.Ended)
	victim.Kill()
	require.NotContains(t, builders, os.Getpid(), "this host sees the mounts")
	assertGone(t, cache, builders)
	assert.NoError(t, scratch.RemoveTree(filepath.Join(cache, "images", ".unfinished-"+Releases[0].Suite)), "the first step of the next build")
}

// mountDir is a folder for what mounts something. In that of t.TempDir, what is
// still mounted at its end would be emptied.
func mountDir(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	dir, err := scratch.New()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, dir.Remove()) })
	path, err := filepath.EvalSymlinks(dir.Path) // as the kernel tells it
	require.NoError(t, err)
	return path
}

// awaitMountsBelow waits until something is mounted below dir. It returns the
// processes that see it.
func awaitMountsBelow(t *testing.T, dir string, ended <-chan struct{}) []int {
	t.Helper()
	for {
		if pids := seeingMountsBelow(t, dir); len(pids) > 0 {
			return pids
		}
		select {
		case <-ended:
			require.Fail(t, "it has ended without having mounted anything")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// assertGone waits until these processes have ended, and nothing is mounted below dir.
func assertGone(t *testing.T, dir string, pids []int) {
	t.Helper()
	for _, pid := range pids {
		assert.Eventually(t, func() bool { return !child.Runs(pid) }, 10*time.Second, 10*time.Millisecond, "process %d", pid)
	}
	assert.Empty(t, seeingMountsBelow(t, dir))
}

// seeingMountsBelow are the processes for which something is mounted below dir: all
// of this host, or those of a namespace.
func seeingMountsBelow(t *testing.T, dir string) []int {
	t.Helper()
	lists, err := filepath.Glob("/proc/[0-9]*/mounts")
	require.NoError(t, err)
	var pids []int
	for _, list := range lists {
		mounts, _ := os.ReadFile(list) // the process may have ended
		if strings.Contains(string(mounts), " "+dir+"/") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(list)))
			require.NoError(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}
