package vmtest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/vmtest/image"
	"github.com/holdfast-proxy/holdfast/vmtest/machine"
	"github.com/holdfast-proxy/holdfast/vmtest/wire"
)

// EachRelease runs a scenario in a machine of each chosen release, side by side. A
// release that is not out yet is skipped if no image of it can be made; any other
// fails then.
func EachRelease(t *testing.T, scenario func(t *testing.T, g *Guest)) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs virtual machines")
	}
	chosen, err := slots()
	require.NoError(t, err)
	for _, slot := range chosen {
		t.Run(slot.release.Suite, func(t *testing.T) {
			t.Parallel()
			slot.mu.Lock()
			t.Cleanup(slot.mu.Unlock) // after the clean-up of the guest
			slot.ensureMachine(t)
			scenario(t, newGuest(t, slot))
		})
	}
}

// Main is the TestMain of a package with scenarios: it ends the machines.
func Main(m *testing.M) {
	code := m.Run()
	chosen, _ := slots() // each scenario has failed with its error
	for _, slot := range chosen {
		if slot.running != nil {
			slot.running.Close()
		}
	}
	os.Exit(code)
}

// slot is the place of the one machine of a release.
type slot struct {
	release image.Release

	mu      sync.Mutex // held while a scenario has the machine
	running *machine.Machine
	systemd int // its version in the running machine

	// Why there is no image, or none that boots. It is not tried again: each try
	// may take minutes, and there are many scenarios.
	noImage, noBoot error
}

// slots are those of the chosen releases: by default what is released.
var slots = sync.OnceValues(func() ([]*slot, error) {
	names := strings.FieldsFunc(os.Getenv("VMTEST_RELEASES"), func(r rune) bool { return r == ',' })
	all := slices.Equal(names, []string{"all"})
	var list []*slot
	for _, r := range image.Releases {
		if all || slices.Contains(names, r.Suite) || len(names) == 0 && !r.Moving {
			list = append(list, &slot{release: r})
		}
	}
	if len(list) < len(names) || len(list) == 0 {
		return nil, fmt.Errorf("VMTEST_RELEASES=%s: there are images of %s, or all", strings.Join(names, ","), strings.Join(suites(), ", "))
	}
	return list, nil
})

// suites are the names of all releases that there are images for.
func suites() []string {
	var names []string
	for _, r := range image.Releases {
		names = append(names, r.Suite)
	}
	return names
}

// ensureMachine boots one if none runs: at the first scenario, and after one whose
// machine has gone down, or could not be cleaned.
func (s *slot) ensureMachine(t *testing.T) {
	t.Helper()
	if s.running != nil && s.running.Alive() {
		return
	}
	if s.running != nil {
		s.running.Close()
		s.running = nil
	}
	var img *image.Image
	if s.noImage == nil {
		img, s.noImage = image.Ensure(t.Context(), cacheDir(), s.release, os.Stderr)
	}
	if s.noImage != nil && s.release.Moving {
		t.Skipf("NOT RUN in %s, no image of it can be made: %v", s.release.Suite, s.noImage)
	}
	require.NoError(t, s.noImage)
	require.NoError(t, s.noBoot)
	payload, err := programs()
	require.NoError(t, err)
	s.running, s.noBoot = machine.Start(t.Context(), machine.Options{
		Image: img, Driver: driver(), Payload: payload, Cache: cacheDir(), Log: os.Stderr,
	})
	require.NoError(t, s.noBoot)
	s.systemd = systemdVersion(t, s.running)
	if want := s.release.Systemd; want != 0 {
		require.Equal(t, want, s.systemd, "the version of systemd that %s stands for", s.release.Suite)
	}
}

func systemdVersion(t *testing.T, m *machine.Machine) int {
	t.Helper()
	r, err := m.Run(context.Background(), wire.Command{Args: []string{"systemctl", "--version"}, Timeout: patience})
	require.NoError(t, err)
	var version int
	_, err = fmt.Sscanf(string(r.Stdout), "systemd %d", &version)
	require.NoError(t, err)
	return version
}

func driver() machine.Driver {
	if d := os.Getenv("VMTEST_DRIVER"); d != "" {
		return machine.Driver(d)
	}
	return machine.QEMU
}
