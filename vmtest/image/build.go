package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-proxy/holdfast/vmtest/cpio"
	"github.com/holdfast-proxy/holdfast/vmtest/scratch"
)

// heartbeat is how often a long step says that it is still going on.
const heartbeat = 15 * time.Second

// build makes the image in dir, which may have the rest of a build that was killed.
func build(ctx context.Context, r Release, dir string, say func(string, ...any)) error {
	if err := scratch.RemoveTree(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	i := &Image{Release: r, dir: dir}
	if err := i.install(ctx, say); err != nil {
		return err
	}
	if err := i.configure(); err != nil {
		return err
	}
	if err := i.takeKernel(); err != nil {
		return err
	}
	say("making the disk")
	return i.makeDisk(ctx)
}

// install unpacks and configures the packages into the root folder.
func (i *Image) install(ctx context.Context, say func(string, ...any)) error {
	uri, err := mirror()
	if err != nil {
		return err
	}
	args := []string{
		"--variant=essential", "--format=directory", "--mode=root",
		"--include=" + strings.Join(recipeList("packages"), ","),
		"--dpkgopt=force-unsafe-io", // of a build that is cut short, nothing is kept
		"--dpkgopt=path-exclude=/usr/share/doc/*",
		"--dpkgopt=path-exclude=/usr/share/man/*",
		"--dpkgopt=path-exclude=/usr/share/locale/*",
		"--dpkgopt=path-exclude=/usr/lib/*/libLLVM*", // a quarter of an image, and PostgreSQL does without
	}
	if i.Release.Moving {
		// The archive may be a snapshot. What it says is signed all the same.
		args = append(args, `--aptopt=Acquire::Check-Valid-Until "false"`)
	}
	for _, option := range proxyOptions() {
		args = append(args, "--aptopt="+option)
	}
	done := make(chan struct{})
	defer close(done)
	go beat(done, say)
	env := []string{"INITRD=No"} // a minute of work for an initrd that nobody boots
	return runContained(ctx, env, "mmdebstrap", append(args, i.Release.Suite, i.Root(), uri)...)
}

// beat says every now and then that a step goes on, until done is closed.
func beat(done <-chan struct{}, say func(string, ...any)) {
	began := time.Now()
	for {
		select {
		case <-done:
			return
		case <-time.After(heartbeat):
			say("installing packages for %.0f s", time.Since(began).Seconds())
		}
	}
}

// configure lays the recipe over what the packages brought.
func (i *Image) configure() error {
	return errors.Join(i.disableAll(), i.writeFiles(), i.linkUnits())
}

// disableAll undoes what the packages have enabled.
func (i *Image) disableAll() error {
	enabled, err := filepath.Glob(filepath.Join(i.units(), "*.wants"))
	if err != nil {
		return err
	}
	for _, dir := range enabled {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

func (i *Image) writeFiles() error {
	for path, content := range recipeFiles("recipe/files") {
		to := filepath.Join(i.Root(), strings.TrimPrefix(path, "recipe/files"))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		// One that is a symlink would lead out of the root.
		if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.WriteFile(to, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// linkUnits enables the agent, and masks units and all generators. These have
// nothing to do here, and take most of the time of a daemon-reload.
func (i *Image) linkUnits() error {
	links := map[string]string{
		"default.target": "/usr/lib/systemd/system/multi-user.target",
		"multi-user.target.wants/harness-agent.service": "../harness-agent.service",
	}
	for _, unit := range recipeList("masked") {
		links[unit] = "/dev/null"
	}
	generators, err := filepath.Glob(filepath.Join(i.Root(), "usr/lib/systemd/system-generators/*"))
	if err != nil {
		return err
	}
	for _, g := range generators {
		links["../system-generators/"+filepath.Base(g)] = "/dev/null"
	}
	for name, target := range links {
		link := filepath.Join(i.units(), name)
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(target, link); err != nil {
			return err
		}
	}
	return nil
}

// units is the administrator's folder of units.
func (i *Image) units() string { return filepath.Join(i.Root(), "etc/systemd/system") }

// takeKernel puts the kernel and the modules of its start beside the root.
func (i *Image) takeKernel() error {
	kernels, err := filepath.Glob(filepath.Join(i.Root(), "boot/vmlinuz-*"))
	if err != nil {
		return err
	}
	if len(kernels) != 1 {
		return fmt.Errorf("the image has %d kernels, it must have one", len(kernels))
	}
	if err := os.Rename(kernels[0], i.Kernel()); err != nil {
		return err
	}
	modules, err := moduleArchive(i.Root(), bootModules)
	if err != nil {
		return err
	}
	f, err := os.Create(i.Modules())
	if err != nil {
		return err
	}
	return errors.Join(cpio.Write(f, modules), f.Close())
}

// makeDisk needs no mount and no loop device. Without a journal and with lazy
// tables it takes about a second; the disk is never used twice.
func (i *Image) makeDisk(ctx context.Context) error {
	if err := os.WriteFile(i.Disk(), nil, 0o644); err != nil {
		return err
	}
	if err := os.Truncate(i.Disk(), diskSize); err != nil {
		return err
	}
	return runContained(ctx, nil, "mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal",
		"-E", "lazy_itable_init=1", "-d", i.Root(), i.Disk())
}
