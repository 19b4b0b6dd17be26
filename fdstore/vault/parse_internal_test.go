package vault

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func header(change func(b []byte)) []byte {
	l := newLayout(100, 16, 8, 32)
	l.userFormat, l.userReaders = 3, 2
	b := make([]byte, pageSize)
	l.writeHeader(b)
	if change != nil {
		change(b)
	}
	return b
}

func put32(at int, value uint32) func([]byte) {
	return func(b []byte) { binary.NativeEndian.PutUint32(b[at:], value) }
}

func TestAHeaderIsReadAsItWasWritten(t *testing.T) {
	want := newLayout(100, 16, 8, 32)
	want.userFormat, want.userReaders = 3, 2
	l, err := parseHeader(header(nil), int64(want.size))
	require.NoError(t, err)
	assert.Equal(t, want, l)
	for _, at := range []int{l.pairsAt, l.marksAt, l.commonAt, l.notesAt, l.slotsAt, l.slabsAt, l.size} {
		assert.Zero(t, at%pageSize)
	}
}

func TestAHeaderThatMakesNoSenseIsRefused(t *testing.T) {
	size := int64(newLayout(100, 16, 8, 32).size)
	for name, tt := range map[string]struct {
		header []byte
		size   int64
		want   string
	}{
		"empty":                {nil, size, "shorter than a header"},
		"short":                {header(nil)[:headerEnd-1], size, "shorter than a header"},
		"zeros":                {make([]byte, pageSize), size, "not a vault's table"},
		"too short a file":     {header(nil), size - pageSize, "should have"},
		"too long a file":      {header(nil), size + pageSize, "should have"},
		"another size inside":  {header(put32(atSize, 4096)), size, "should have"},
		"no slots":             {header(put32(atSlots, 0)), size, "0 slots"},
		"many slots":           {header(put32(atSlots, 1<<31)), size, "2147483648 slots"},
		"one more slot":        {header(put32(atSlots, 117)), size, "should have"},
		"many notes":           {header(put32(atNotes, 1<<31)), size, "notes"},
		"many slabs":           {header(put32(atSlabs, 1<<31)), size, "slabs"},
		"no segments":          {header(put32(atPairs, 0)), size, "0 segments"},
		"slots of other sizes": {header(put32(atSlotSize, 128)), size, "128"},
		"newer":                {header(func(b []byte) { put32(atFormat, 2)(b); put32(atReadableBy, 2)(b) }), size, "format 2"},
		"format 0":             {header(put32(atFormat, 0)), size, "format 0"},
	} {
		_, err := parseHeader(tt.header, tt.size)
		require.Error(t, err, name)
		assert.ErrorContains(t, err, tt.want, name)
	}
}

func TestANewerHeaderThatSaysSoIsRead(t *testing.T) {
	_, err := parseHeader(header(put32(atFormat, 2)), int64(newLayout(100, 16, 8, 32).size))
	assert.NoError(t, err)
}

func TestWhoCanReadWhat(t *testing.T) {
	for _, tt := range []struct {
		name                          string
		written, readers, own, oldest uint32
		want                          bool
	}{
		{"the same", 3, 3, 3, 3, true},
		{"older", 2, 2, 3, 1, true},
		{"too old", 1, 1, 3, 2, false},
		{"newer, for newer ones only", 4, 4, 3, 1, false},
		{"newer, for all", 4, 1, 3, 3, true},
		{"newer, for this one", 4, 3, 3, 3, true},
		{"no formats", 0, 0, 0, 0, true},
	} {
		assert.Equal(t, tt.want, readable(tt.written, tt.readers, tt.own, tt.oldest), tt.name)
	}
}

func message(change func(b []byte)) []byte {
	r := record{slot: 7, serial: 9, count: 2, userFormat: 3, userReaders: 2}
	var b [recordSize]byte
	r.write(&b)
	if change != nil {
		change(b[:])
	}
	return b[:]
}

func TestARecordIsReadAsItWasWritten(t *testing.T) {
	for _, b := range [][]byte{
		message(nil),
		append(message(nil), 1, 2, 3), // of a newer version with more to say
		message(func(b []byte) { binary.NativeEndian.PutUint16(b[4:], format+1) }),
	} {
		r, err := parseRecord(b)
		require.NoError(t, err)
		assert.Equal(t, record{slot: 7, serial: 9, count: 2, userFormat: 3, userReaders: 2}, r)
	}
}

func TestARecordOfANewerFormatIsNamed(t *testing.T) {
	r, err := parseRecord(message(func(b []byte) { put32(4, 0x0002_0002)(b); put32(20, 99)(b) }))
	require.ErrorIs(t, err, errNewer)
	assert.EqualValues(t, 7, r.slot)
	assert.EqualValues(t, 9, r.serial)
}

func TestWhatIsNoRecordIsRefused(t *testing.T) {
	for name, b := range map[string][]byte{
		"nothing":           nil,
		"zeros":             make([]byte, recordSize),
		"short":             message(nil)[:recordSize-1],
		"no descriptors":    message(put32(20, 0)),
		"three descriptors": message(put32(20, 3)),
		"no serial":         message(func(b []byte) { binary.NativeEndian.PutUint64(b[8:], 0) }),
	} {
		_, err := parseRecord(b)
		assert.ErrorIs(t, err, errNoRecord, name)
	}
}

func TestAMirrorKeepsTheOrderAndGrows(t *testing.T) {
	var m mirror
	next, want := uint64(0), uint64(0)
	for range 5 {
		for range 900 {
			next++
			m.push(entry{serial: next})
		}
		for range 300 {
			want++
			require.Equal(t, want, m.pop().serial)
		}
	}
	assert.Equal(t, 3000, m.len())
	assert.Equal(t, want+1, m.at(0).serial)
	assert.Equal(t, next, m.at(m.len()-1).serial)
}

func FuzzHeader(f *testing.F) {
	size := int64(newLayout(100, 16, 8, 32).size)
	f.Add(header(nil), size)
	f.Add(header(put32(atSlots, 1<<24)), size)
	f.Add(header(put32(atFormat, 2)), size)
	f.Add([]byte("no table"), int64(8))
	f.Fuzz(func(t *testing.T, b []byte, size int64) {
		l, err := parseHeader(b, size)
		if err != nil {
			return
		}
		assert.EqualValues(t, size, l.size)
		// What is last in each part ends before the next.
		assert.LessOrEqual(t, l.pair(l.pairs), l.marksAt)
		assert.LessOrEqual(t, l.mark(l.slabs), l.commonAt)
		assert.LessOrEqual(t, l.note(uint32(l.notes)), l.slotsAt)
		assert.LessOrEqual(t, l.slot(uint32(l.slots)), l.slabsAt)
		assert.LessOrEqual(t, l.slab(l.slabs), l.size)
	})
}

func FuzzRecord(f *testing.F) {
	f.Add(message(nil))
	f.Add(message(put32(4, 0x0002_0002)))
	f.Add(message(nil)[:20])
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseRecord(b)
		if err != nil {
			return
		}
		assert.Contains(t, []int{1, 2}, r.count)
		assert.NotZero(t, r.serial)
	})
}

func FuzzName(f *testing.F) {
	for _, seed := range []string{"vault/table", "vault/1/in", "vault/4294967295/out", "vault/01/in", "vault/0/in", "vault//in", "vault/1/inn", "x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		id, out, ok := parseName(name)
		switch {
		case !ok:
			assert.Equal(t, name == "vault/table", IsName(name))
		case out:
			assert.Equal(t, outName(id), name)
		default:
			assert.Equal(t, inName(id), name)
		}
	})
}

func FuzzDirectory(f *testing.F) {
	f.Add(make([]byte, 2*pairSize))
	f.Add([]byte{1, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 9})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 5, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, l := range parseDirectory(b) {
			assert.True(t, IsName(l.Name))
			assert.GreaterOrEqual(t, l.FD, 0)
		}
	})
}
