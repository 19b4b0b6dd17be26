package vault

import (
	"log/slog"

	"golang.org/x/sys/unix"
)

// Options of a Vault.
type Options struct {
	// Slots is how many connections and kept pipes there may be at once, at most
	// 16,777,216; 0 = 262,144. Each that is in use takes 256 bytes. A restored vault
	// has as many as it was made with.
	Slots int

	// Writers is how many there are; 0 = 1.
	Writers int

	// InFlight is how many descriptors there may be in all queues at once, live and
	// dead. The kernel counts them for the user, and beyond his soft limit of open
	// files (NOFILE) none of his processes can pass any. 0 = that limit of this
	// process, less 2,284 or, where that is less, a quarter.
	InFlight int

	// Format is that of the user's bytes in slots, slabs, notes and the common page.
	Format uint32
	// Reads is the oldest format that this program can read; 0 = all before Format.
	Reads uint32
	// ReadBy is the oldest format whose programs can read what this one writes; 0 =
	// Format.
	ReadBy uint32

	// Attempts is how often in a row a vault is restored and neither settled nor closed,
	// before it is given up: as a process dies each time, what it finds may be why. It goes
	// on for two minutes at least, as the want of memory may pass. 0 = 20, below it is never.
	Attempts int

	Log *slog.Logger // nil = nobody is told
}

func (o Options) withDefaults() (Options, error) {
	if o.Slots == 0 {
		o.Slots = 1 << 18
	}
	o.Writers = max(o.Writers, 1)
	if o.Attempts == 0 {
		o.Attempts = 20
	}
	if o.ReadBy == 0 {
		o.ReadBy = o.Format
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.InFlight == 0 {
		var limit unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			return o, err
		}
		// The records of two segments, and what the process has open besides.
		const spare = 2*555*mostFDs + 64
		most := int(min(limit.Cur, 1<<30))
		o.InFlight = most - min(spare, most/4)
	}
	return o, nil
}
