package vault

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// recordMagic and what follows to the user's format stay where they are in every
// format, so that a record that cannot be read can be named.
const (
	recordMagic = 0x7666_6468 // "hdfv" in little-endian order
	recordSize  = 32

	// mostSerial is what no counter comes to. Whatever is above was not counted.
	mostSerial = 1 << 62
)

// record is the message beside the descriptors of one connection.
type record struct {
	slot   uint32
	serial uint64
	count  int // of descriptors, 1 or 2

	userFormat  uint32 // of the slot's content
	userReaders uint32
}

func (r *record) write(b *[recordSize]byte) {
	binary.NativeEndian.PutUint32(b[0:], recordMagic)
	binary.NativeEndian.PutUint16(b[4:], format)
	binary.NativeEndian.PutUint16(b[6:], readableBy)
	binary.NativeEndian.PutUint64(b[8:], r.serial)
	binary.NativeEndian.PutUint32(b[16:], r.slot)
	binary.NativeEndian.PutUint32(b[20:], uint32(r.count))
	binary.NativeEndian.PutUint32(b[24:], r.userFormat)
	binary.NativeEndian.PutUint32(b[28:], r.userReaders)
}

// parseRecord reads a message, which may be anything. With errNewer the record is
// valid as far as its slot and serial go.
func parseRecord(b []byte) (record, error) {
	if len(b) < recordSize || binary.NativeEndian.Uint32(b) != recordMagic {
		return record{}, errNoRecord
	}
	r := record{
		serial:      binary.NativeEndian.Uint64(b[8:]),
		slot:        binary.NativeEndian.Uint32(b[16:]),
		userFormat:  binary.NativeEndian.Uint32(b[24:]),
		userReaders: binary.NativeEndian.Uint32(b[28:]),
	}
	if r.serial == 0 || r.serial > mostSerial {
		return record{}, errNoRecord
	}
	written, readers := binary.NativeEndian.Uint16(b[4:]), binary.NativeEndian.Uint16(b[6:])
	if !readable(uint32(written), uint32(readers), format, 1) {
		return r, fmt.Errorf("%w: the record has format %d, and this program knows 1 to %d", errNewer, written, format)
	}
	count := binary.NativeEndian.Uint32(b[20:])
	if count != 1 && count != 2 {
		return record{}, errNoRecord
	}
	r.count = int(count)
	return r, nil
}

var (
	errNoRecord = errors.New("it is not a record of a vault")
	errNewer    = errors.New("another version wrote it")
)
