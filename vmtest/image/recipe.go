package image

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
)

// Release is a version of Debian that an image is made of.
type Release struct {
	Suite   string // of Debian's archive
	Systemd int    // its version of systemd; 0 = whatever it has
	Moving  bool   // not released yet, so that it may be broken on some days
}

// Releases are all there are images for, the oldest first. The first two are on
// both sides of systemd 254, which brought much of what the FD store can do.
var Releases = []Release{
	{Suite: "bookworm", Systemd: 252},
	{Suite: "trixie", Systemd: 257},
	{Suite: "sid", Moving: true},
}

// recipe are the files that go into an image, and the steps by which it is made.
//
//go:embed all:recipe build.go modules.go
var recipe embed.FS

// diskSize is the size of a root disk in bytes. The file is sparse.
const diskSize = 2 << 30

// bootModules are the kernel modules without which a guest has no disk and no
// line to the host. In some kernels they are built in.
var bootModules = []string{"virtio_pci", "virtio_blk", "virtio_console"}

// hash identifies the content of an image that the recipe gives for a release.
func hash(r Release) string {
	h := sha256.New()
	fmt.Fprintln(h, r.Suite, diskSize, bootModules)
	for path, content := range recipeFiles(".") {
		fmt.Fprintf(h, "%q %q\n", path, content)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// recipeFiles are the files below dir, in a fixed order.
func recipeFiles(dir string) func(yield func(string, []byte) bool) {
	return func(yield func(string, []byte) bool) {
		_ = fs.WalkDir(recipe, dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := recipe.ReadFile(path)
			if err != nil {
				return err
			}
			if !yield(path, content) {
				return fs.SkipAll
			}
			return nil
		})
	}
}

// recipeList reads a list of the recipe, one word a line.
func recipeList(name string) []string {
	content, err := recipe.ReadFile("recipe/" + name)
	if err != nil {
		panic(err) // it is compiled in
	}
	var list []string
	for line := range strings.Lines(string(content)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			list = append(list, line)
		}
	}
	return list
}
