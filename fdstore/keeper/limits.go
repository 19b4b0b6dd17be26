package keeper

import (
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore"
)

const (
	// spareFiles is for sockets of the keeper and what is under way to it; half of all
	// where that is less.
	spareFiles = 320

	// mostNameBytes is what LISTEN_FDNAMES may have. No process can be started with a
	// string of 128 KiB in its environment (MAX_ARG_STRLEN).
	mostNameBytes = 127 << 10
)

// fit is how much of a size of the store this process has descriptors for. It has each
// twice for a moment when it starts a process.
func (k *keeper) fit(size, sockets int) int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil { // the runtime has raised it as far as it may
		return size
	}
	files := int(min(limit.Cur, 1<<30))
	most := max(0, (files-min(spareFiles, files/2))/2-sockets)
	if size > most {
		k.log.Warn("the store is smaller than asked for: this process may not open enough files (ulimit -n)",
			"max", most, "asked", size, "files", limit.Cur)
	}
	return min(size, most)
}

// nameBytes is what the names of sockets leave for those of the store.
func nameBytes(sockets []fdstore.Held) int {
	left := mostNameBytes
	for _, s := range sockets {
		left -= len(s.Name) + 1
	}
	return max(left, 1)
}
