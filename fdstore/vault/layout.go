package vault

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The table, in the byte order of the host:
//
//	header, one page | directory | slab marks | common page | notes | slots | slabs
//
// Each part begins on a page. What is not used has no memory behind it (tmpfs).
const (
	magic      = 0x746c_7561_7666_6468 // "hdfvault" in little-endian order
	format     = 1                     // of the table and of the records
	readableBy = 1                     // the oldest format whose readers can read this one

	pageSize = 4 << 10
	slotSize = 256
	slotHead = 16 // the vault's part of a slot: serial uint64, 8 bytes spare
	noteSize = 1 << 10
	noteHead = 16 // serial uint64, length uint32, 4 bytes spare
	noteTail = 8  // counter int64
	slabSize = 1 << 20
	markSize = 4  // of a slab: uint32, 0 = free
	pairSize = 16 // of a segment in the directory: id, in, out, 4 bytes spare

	noteCount = 8192
	slabCount = 4096
	pairCount = 4096

	mostSlots = 1 << 24
)

// Offsets in the header. The counters that every loop changes have cache lines of
// their own.
const (
	atMagic       = 0   // uint64
	atFormat      = 8   // uint32
	atReadableBy  = 12  // uint32
	atUserFormat  = 16  // uint32
	atUserReaders = 20  // uint32
	atSlots       = 24  // uint32
	atSlotSize    = 28  // uint32
	atNotes       = 32  // uint32
	atNoteSize    = 36  // uint32
	atSlabs       = 40  // uint32
	atSlabSize    = 44  // uint32
	atPairs       = 48  // uint32
	atSize        = 56  // uint64, of the whole file
	atOwner       = 64  // uint32, process ID; 0 = the directory is not valid
	atSegment     = 68  // uint32, the last segment that was made
	atUnsettled   = 72  // uint32, how often it was restored since it was last settled
	atTried       = 80  // uint64, when that was done first; CLOCK_BOOTTIME, in nanoseconds
	atSerial      = 128 // uint64, the last that was given out
	atUsedSlots   = 192 // uint32, slots from this one on have never been used

	headerEnd = 196
)

// layout is where everything is in a table.
type layout struct {
	userFormat  uint32
	userReaders uint32 // the oldest format of the user whose readers can read it

	slots, notes, slabs, pairs int

	pairsAt, marksAt, commonAt, notesAt, slotsAt, slabsAt int
	size                                                  int // of the file, in bytes
}

func newLayout(slots, notes, slabs, pairs int) layout {
	l := layout{slots: slots, notes: notes, slabs: slabs, pairs: pairs}
	at := pageSize
	part := func(bytes int) (start int) {
		start = at
		at += (bytes + pageSize - 1) / pageSize * pageSize
		return start
	}
	l.pairsAt = part(pairs * pairSize)
	l.marksAt = part(slabs * markSize)
	l.commonAt = part(pageSize)
	l.notesAt = part(notes * noteSize)
	l.slotsAt = part(slots * slotSize)
	l.slabsAt = part(slabs * slabSize)
	l.size = at
	return l
}

func (l *layout) pair(i int) int    { return l.pairsAt + i*pairSize }
func (l *layout) mark(i int) int    { return l.marksAt + i*markSize }
func (l *layout) note(i uint32) int { return l.notesAt + int(i)*noteSize }
func (l *layout) slot(i uint32) int { return l.slotsAt + int(i)*slotSize }
func (l *layout) slab(i int) int    { return l.slabsAt + i*slabSize }

// writeHeader fills in what parseHeader reads.
func (l *layout) writeHeader(header []byte) {
	put := binary.NativeEndian.PutUint32
	binary.NativeEndian.PutUint64(header[atMagic:], magic)
	put(header[atFormat:], format)
	put(header[atReadableBy:], readableBy)
	put(header[atUserFormat:], l.userFormat)
	put(header[atUserReaders:], l.userReaders)
	put(header[atSlots:], uint32(l.slots))
	put(header[atSlotSize:], slotSize)
	put(header[atNotes:], uint32(l.notes))
	put(header[atNoteSize:], noteSize)
	put(header[atSlabs:], uint32(l.slabs))
	put(header[atSlabSize:], slabSize)
	put(header[atPairs:], uint32(l.pairs))
	binary.NativeEndian.PutUint64(header[atSize:], uint64(l.size))
}

// parseHeader reads the header of a table of so many bytes, which may be anything.
func parseHeader(header []byte, fileSize int64) (layout, error) {
	if len(header) < headerEnd {
		return layout{}, errors.New("it is shorter than a header")
	}
	get := func(at int) uint32 { return binary.NativeEndian.Uint32(header[at:]) }
	if binary.NativeEndian.Uint64(header[atMagic:]) != magic {
		return layout{}, errors.New("it is not a vault's table")
	}
	if !readable(get(atFormat), get(atReadableBy), format, 1) {
		return layout{}, fmt.Errorf("it has format %d, to be read by programs that know format %d, and this one knows 1 to %d",
			get(atFormat), get(atReadableBy), format)
	}
	if get(atSlotSize) != slotSize || get(atNoteSize) != noteSize || get(atSlabSize) != slabSize {
		return layout{}, fmt.Errorf("its slots, notes and slabs have %d, %d and %d bytes", get(atSlotSize), get(atNoteSize), get(atSlabSize))
	}
	slots, notes, slabs, pairs := get(atSlots), get(atNotes), get(atSlabs), get(atPairs)
	if slots == 0 || slots > mostSlots || notes > noteCount || slabs > slabCount || pairs == 0 || pairs > pairCount {
		return layout{}, fmt.Errorf("it says that it has %d slots, %d notes, %d slabs and %d segments", slots, notes, slabs, pairs)
	}
	l := newLayout(int(slots), int(notes), int(slabs), int(pairs))
	l.userFormat, l.userReaders = get(atUserFormat), get(atUserReaders)
	if size := binary.NativeEndian.Uint64(header[atSize:]); int64(l.size) != fileSize || uint64(l.size) != size {
		return layout{}, fmt.Errorf("it has %d bytes, says %d, and should have %d", fileSize, size, l.size)
	}
	return l, nil
}

// readable tells whether what was written in a format, for readers that know at
// least another, can be read by who knows formats from oldest to own.
func readable(written, readers, own, oldest uint32) bool {
	return written >= oldest && (written <= own || readers <= own)
}
