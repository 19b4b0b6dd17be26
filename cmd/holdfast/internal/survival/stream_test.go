package survival

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// fill writes the bytes of a stream from a position on. Those of another stream or
// position differ.
func fill(b []byte, key uint64, at int64) {
	var word [8]byte
	for len(b) > 0 {
		binary.LittleEndian.PutUint64(word[:], mix(key+uint64(at)/8))
		n := copy(b, word[at%8:])
		b, at = b[n:], at+int64(n)
	}
}

// mix is splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// compare tells the first byte that is not the stream's.
func compare(got []byte, key uint64, at int64) error {
	want := make([]byte, len(got))
	fill(want, key, at)
	if bytes.Equal(got, want) {
		return nil
	}
	first := 0
	for got[first] == want[first] {
		first++
	}
	piece := got[first:min(first+16, len(got))]
	return fmt.Errorf("wrong bytes from position %d on: %x, and not %x; %s", at+int64(first), piece, want[first:first+len(piece)], whence(piece, key, at+int64(first)))
}

// whence looks for bytes nearby in their stream.
func whence(piece []byte, key uint64, at int64) string {
	if len(piece) < 8 {
		return "too few to be found elsewhere"
	}
	const around = 4 << 20
	from := max(0, at-around)
	near := make([]byte, 2*around)
	fill(near, key, from)
	if i := bytes.Index(near, piece); i >= 0 {
		return fmt.Sprintf("they are those of position %d", from+int64(i))
	}
	return "they are not of this stream"
}
