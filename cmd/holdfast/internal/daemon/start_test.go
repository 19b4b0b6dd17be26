package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/leaktest"
)

// everySocket is a config with every kind of socket that an instance opens.
func everySocket(dir string) *config.Config {
	cfg := configIn(dir)
	metrics := loopback(0)
	cfg.Global.Metrics = &metrics
	cfg.Global.DrainTimeout = config.Timeout{}
	cfg.Listeners[0].Listen = []config.Address{
		{Network: "unix", Path: filepath.Join(dir, "web.sock")}, loopback(0), {Network: "unix", Path: filepath.Join(dir, "web2.sock")},
	}
	return cfg
}

func TestAStartThatFailsLeavesNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	taken := loopback(netip.MustParseAddrPort(l.Addr().String()).Port())

	for step, c := range map[string]struct {
		spoil func(cfg *config.Config)
		error string
	}{
		"control socket": {func(cfg *config.Config) { cfg.Global.ControlSocket = "/nonexistent/a/control.sock" }, "control socket /nonexistent/a/control.sock: "},
		"metrics":        {func(cfg *config.Config) { cfg.Global.Metrics = &taken }, "metrics address " + taken.String() + ": address already in use"},
		"listener":       {func(cfg *config.Config) { cfg.Listeners[0].Listen[1] = taken }, "listener web (tcp " + l.Addr().String() + "): address already in use"},
	} {
		t.Run(step, func(t *testing.T) {
			dir := shortDir(t)
			cfg := everySocket(dir)
			c.spoil(cfg)
			before := leaktest.Descriptors()
			_, err := start(t.Context(), optionsFor(cfg), quiet, new(slog.LevelVar))
			require.ErrorContains(t, err, c.error)
			assert.Empty(t, filesIn(t, dir))
			assert.Empty(t, leaktest.Opened(before))
		})
	}
}

func init() {
	children["start with fewer and fewer descriptors"] = func() error {
		before, failed := leaktest.Descriptors(), 0
		const plenty, fewest = 30, 1 // that are free; one is needed to look after each start
		for free := plenty; free >= fewest; free-- {
			limit := uint64(len(before) + free)
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
				return err
			}
			runtime.GOMAXPROCS(1)
			d, err := start(context.Background(), optionsFor(everySocket(os.Getenv("DIR"))), quiet, new(slog.LevelVar))
			switch {
			case err == nil:
				d.stop(nil)
			case errors.Is(err, unix.EMFILE):
				failed++
			default:
				return fmt.Errorf("with %d free descriptors: %w", free, err)
			}
			files, _ := filepath.Glob(os.Getenv("DIR") + "/*")
			if opened := leaktest.Opened(before); len(files)+len(opened) > 0 {
				return fmt.Errorf("with %d free descriptors (%w): %q and %q are left", free, err, files, opened)
			}
		}
		if failed < 6 || failed == plenty {
			return fmt.Errorf("%d of %d starts failed: both is to be seen", failed, plenty)
		}
		return nil
	}
}

// Each call that opens something is once the one that fails.
func TestAStartThatRunsOutOfDescriptorsAnywhereLeavesNothing(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "DAEMON_TEST_CHILD=start with fewer and fewer descriptors", "DIR="+shortDir(t), "GORACE=atexit_sleep_ms=0")
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
