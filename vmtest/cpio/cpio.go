// Package cpio writes archives in the format that the kernel unpacks as its
// initial RAM disk: "newc", see Documentation/driver-api/early-userspace/buffer-format.rst
// of the kernel. Archives may follow each other in one file.
package cpio

import (
	"fmt"
	"io"
	"path"
	"strings"
)

// File is one regular file of an archive.
type File struct {
	Name    string // path without a leading slash
	Mode    uint32 // permission bits
	Content []byte
}

const (
	typeDir  = 0o040000
	typeFile = 0o100000
	trailer  = "TRAILER!!!"
)

// Write writes an archive of files, each after the folders above it.
func Write(w io.Writer, files []File) error {
	a := &archive{w: w, made: map[string]bool{".": true}}
	for _, f := range files {
		a.folders(path.Dir(f.Name))
		a.entry(f.Name, typeFile|f.Mode, f.Content)
	}
	a.entry(trailer, 0, nil)
	return a.err
}

// archive keeps the first error, after which it writes nothing.
type archive struct {
	w     io.Writer
	made  map[string]bool
	inode int
	err   error
}

func (a *archive) folders(dir string) {
	if a.made[dir] {
		return
	}
	a.folders(path.Dir(dir))
	a.entry(dir, typeDir|0o755, nil)
	a.made[dir] = true
}

func (a *archive) entry(name string, mode uint32, content []byte) {
	a.inode++ // files of one number would be hard links
	header := fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		a.inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name)+1, 0, name)
	a.write([]byte(header))
	a.write(content)
}

// write pads b to the boundary of four bytes at which each part begins.
func (a *archive) write(b []byte) {
	if a.err == nil {
		_, a.err = a.w.Write(b)
	}
	if a.err == nil {
		_, a.err = io.WriteString(a.w, strings.Repeat("\x00", -len(b)&3))
	}
}
