package proxyproto

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParse holds Parse to its contract for any bytes, and holds what it found
// against what Append makes of it.
func FuzzParse(f *testing.F) {
	captures, err := filepath.Glob("testdata/*.bin")
	require.NoError(f, err)
	require.NotEmpty(f, captures)
	for _, name := range captures {
		b, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(b)
	}
	for _, test := range headers {
		f.Add(test.in)
	}
	f.Add([]byte("PROXY TCP4 1.1.1.1"))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))

	f.Fuzz(func(t *testing.T, b []byte) {
		h, n, err := Parse(b)
		if err != nil {
			require.Zero(t, h)
			checkRefusal(t, b, n, err)
			return
		}
		require.Positive(t, n)
		require.LessOrEqual(t, n, min(len(b), MaxLen))
		for k := range n {
			_, hint, err := Parse(b[:k])
			require.ErrorIs(t, err, ErrMore, "after %d of %d bytes", k, n)
			require.Greater(t, hint, k)
			require.LessOrEqual(t, hint, n, "asks for payload")
		}

		require.Equal(t, h.Local, !h.Source.IsValid())
		require.Equal(t, h.Local, !h.Destination.IsValid())
		again := Append(nil, h.Version, h.Source, h.Destination)
		h2, n2, err := Parse(again)
		require.NoError(t, err)
		require.Equal(t, h, h2)
		require.Len(t, again, n2)
	})
}

// checkRefusal: more bytes do not heal what is invalid, and an incomplete
// header does not ask for more than one can have.
func checkRefusal(t *testing.T, b []byte, n int, err error) {
	t.Helper()
	if n != 0 {
		require.ErrorIs(t, err, ErrMore)
		require.Greater(t, n, len(b))
		require.LessOrEqual(t, n, MaxLen)
		return
	}
	require.ErrorIs(t, err, ErrInvalid)
	_, _, err = Parse(append(b[:len(b):len(b)], "\r\n"...))
	require.ErrorIs(t, err, ErrInvalid)
}

// FuzzAppend: each pair of addresses comes back, the header is of the version
// asked for, and nothing but the header is appended.
func FuzzAppend(f *testing.F) {
	f.Add(1, []byte{192, 0, 2, 1}, uint16(1), []byte{192, 0, 2, 2}, uint16(2))
	f.Add(2, netip.IPv6Loopback().AsSlice(), uint16(0), []byte{192, 0, 2, 2}, uint16(65535))
	f.Add(2, []byte(nil), uint16(0), []byte(nil), uint16(0))
	f.Fuzz(func(t *testing.T, version int, src []byte, srcPort uint16, dst []byte, dstPort uint16) {
		version = 1 + version&1
		source, _ := netip.AddrFromSlice(src)
		destination, _ := netip.AddrFromSlice(dst)
		b := Append([]byte("before"), version, netip.AddrPortFrom(source, srcPort), netip.AddrPortFrom(destination, dstPort))
		require.Equal(t, "before", string(b[:6]))

		h, n, err := Parse(b[6:])
		require.NoError(t, err)
		require.Len(t, b[6:], n)
		want := Header{Version: version, Local: true}
		if source.IsValid() && destination.IsValid() {
			want = Header{
				Version:     version,
				Source:      netip.AddrPortFrom(source.Unmap(), srcPort),
				Destination: netip.AddrPortFrom(destination.Unmap(), dstPort),
			}
		}
		require.Equal(t, want, h)
	})
}
