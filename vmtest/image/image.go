// Package image makes the machines that scenarios run in: a minimal Debian from
// the distribution's own packages, as a folder and as a disk, with its kernel.
//
// What goes into one is the recipe, the files below recipe/ and the steps in build.go and
// modules.go. Images are cached by its content: a changed recipe makes a new image, an
// unchanged one is taken from the cache within a millisecond. Processes that need the
// same image at the same time wait for the first to have built it. One that is killed
// while it builds leaves no mount, no process, and nothing that a later one could take for
// an image: only a folder, which the next build removes.
package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/vmtest/scratch"
)

// buildPatience is for a build beside others on a slow line. It takes a minute on
// an idle host.
const buildPatience = 15 * time.Minute

// lockPoll is how often to look whether another process has built an image.
const lockPoll = 100 * time.Millisecond

// Image is a Debian that can be booted. Its files are never written to.
type Image struct {
	Release Release
	dir     string
}

// Root is the folder with the whole system.
func (i *Image) Root() string { return filepath.Join(i.dir, "root") }

// Disk is an ext4 file system with the same content.
func (i *Image) Disk() string { return filepath.Join(i.dir, "root.ext4") }

// Kernel is the kernel of the system.
func (i *Image) Kernel() string { return filepath.Join(i.dir, "vmlinuz") }

// Modules is a cpio archive of the kernel modules that are needed to mount the
// disk, at /modules, in the order of their names.
func (i *Image) Modules() string { return filepath.Join(i.dir, "modules.cpio") }

// Ensure returns the image of a release from the folder cache, and builds it
// there first if need be. That takes a minute and root; progress tells of it.
func Ensure(ctx context.Context, cache string, r Release, progress io.Writer) (*Image, error) {
	cache, err := filepath.Abs(cache)
	if err != nil {
		return nil, err
	}
	images := filepath.Join(cache, "images")
	i := &Image{Release: r, dir: filepath.Join(images, r.Suite+"-"+hash(r))}
	if i.exists() {
		return i, nil
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("image %s: not in %s, and only root can build it: run make vmtest as root once; "+
			"QEMU then needs no root", r.Suite, images)
	}
	if err := os.MkdirAll(images, 0o755); err != nil {
		return nil, err
	}
	lock, err := lockFile(ctx, filepath.Join(images, r.Suite+".lock"))
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if i.exists() {
		return i, nil
	}
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(progress, "vmtest: image %s: %s\n", r.Suite, fmt.Sprintf(format, args...))
	}
	say("not in %s, building it", images)
	unfinished := filepath.Join(images, ".unfinished-"+r.Suite)
	ctx, cancel := context.WithTimeout(ctx, buildPatience)
	defer cancel()
	if err := build(ctx, r, unfinished, say); err != nil {
		// The disk may be full, and half an image is of no use.
		return nil, fmt.Errorf("image %s: %w", r.Suite, errors.Join(err, ctx.Err(), scratch.RemoveTree(unfinished)))
	}
	if err := os.Rename(unfinished, i.dir); err != nil {
		return nil, err
	}
	say("built in %.0f s", time.Since(began).Seconds())
	return i, nil
}

func (i *Image) exists() bool {
	_, err := os.Stat(i.dir)
	return err == nil
}

// lockFile waits until no other process has the file locked, or ctx ends. Closing
// it, or the end of the process, unlocks it.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if errors.Is(err, unix.EWOULDBLOCK) {
			select {
			case <-time.After(lockPoll):
				continue
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
}
