package vault

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Count tells how many connections and pipes a vault keeps, by a copy of its table: for who
// is to restore it, and will need descriptors for all of them. Its owner may go on meanwhile.
func Count(file int) (count int, err error) {
	l, err := inspect(file)
	if err != nil {
		return 0, err
	}
	mem, err := unix.Mmap(file, 0, l.slot(uint32(l.slots)), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return 0, fmt.Errorf("map a vault's table: %w", err)
	}
	t := &table{layout: l, mem: mem}
	for slot := range min(t.uint32At(atUsedSlots).Load(), uint32(l.slots)) {
		if t.serial(slot).Load() != 0 {
			count++
		}
	}
	return count, unix.Munmap(mem)
}
