package vmtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/holdfast-proxy/holdfast/vmtest/scratch"
)

// programs are what is under test and what the harness needs in a guest, built
// from this module once a run: the content of each by its name. holdfast-next is
// another build, whose version is "next".
var programs = sync.OnceValues(func() (map[string][]byte, error) {
	dir, err := scratch.New()
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Remove() }()
	// Static, so that they run in every release.
	const nextVersion = " -X github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/cli.version=next"
	sources := map[string][]string{
		"holdfast":      {"-ldflags=-s -w", "./cmd/holdfast"},
		"holdfast-next": {"-ldflags=-s -w" + nextVersion, "./cmd/holdfast"},
		"guest":         {"-ldflags=-s -w", "./vmtest/guest"},
	}
	built := map[string][]byte{}
	for name, source := range sources {
		cmd := exec.Command("go", append([]string{"build", "-trimpath", "-o", filepath.Join(dir.Path, name)}, source...)...)
		cmd.Dir = moduleDir()
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("go build: %w\n%s", err, out)
		}
		if built[name], err = os.ReadFile(filepath.Join(dir.Path, name)); err != nil {
			return nil, err
		}
	}
	return built, nil
})

// moduleDir is the folder of the checkout.
func moduleDir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(file))
}

// cacheDir is where images are kept between runs.
func cacheDir() string {
	if dir := os.Getenv("VMTEST_CACHE"); dir != "" {
		return dir
	}
	return filepath.Join(moduleDir(), "vmtest", ".cache")
}
