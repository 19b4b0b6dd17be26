package proxyproto

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pp "github.com/pires/go-proxyproto"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func capture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".bin"))
	require.NoError(t, err)
	return b
}

// v2 builds a header by hand: command, family and what follows the length.
func v2(command, family byte, body ...byte) []byte {
	b := append(bytes.Clone(pp.SIGV2), command, family)
	b = binary.BigEndian.AppendUint16(b, uint16(len(body)))
	return append(b, body...)
}

// addresses4 is the address block of 192.0.2.1:4660 to 198.51.100.2:80.
var addresses4 = []byte{192, 0, 2, 1, 198, 51, 100, 2, 0x12, 0x34, 0, 80}

func with(b []byte, more ...byte) []byte { return append(bytes.Clone(b), more...) }

func proxied(version int, src, dst string) Header {
	return Header{Version: version, Source: netip.MustParseAddrPort(src), Destination: netip.MustParseAddrPort(dst)}
}

func local(version int) Header { return Header{Version: version, Local: true} }

var headers = map[string]struct {
	in   []byte
	want Header
}{
	"v1 IPv4":             {[]byte("PROXY TCP4 192.0.2.1 198.51.100.2 4660 80\r\n"), proxied(1, "192.0.2.1:4660", "198.51.100.2:80")},
	"v1 IPv6":             {[]byte("PROXY TCP6 2001:db8::1 2001:db8::2 1 65535\r\n"), proxied(1, "[2001:db8::1]:1", "[2001:db8::2]:65535")},
	"v1 IPv6-mapped IPv4": {[]byte("PROXY TCP6 ::ffff:192.0.2.1 2001:db8::2 1 2\r\n"), proxied(1, "192.0.2.1:1", "[2001:db8::2]:2")},
	"v1 unknown":          {[]byte("PROXY UNKNOWN\r\n"), local(1)},
	"v1 unknown, with text that has to be ignored": {[]byte("PROXY UNKNOWN what ever\r\n"), local(1)},
	"v1 of the greatest length": {
		[]byte("PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n"),
		local(1),
	},
	"v2 IPv4":                  {v2(0x21, 0x11, addresses4...), proxied(2, "192.0.2.1:4660", "198.51.100.2:80")},
	"v2 IPv4 with a field":     {v2(0x21, 0x11, with(addresses4, 0x04, 0, 1, 7)...), proxied(2, "192.0.2.1:4660", "198.51.100.2:80")},
	"v2 of a datagram client":  {v2(0x21, 0x12, addresses4...), proxied(2, "192.0.2.1:4660", "198.51.100.2:80")},
	"v2 local":                 {v2(0x20, 0x00), local(2)},
	"v2 local with an address": {v2(0x20, 0x11, addresses4...), local(2)},
	"v2 local with junk":       {v2(0x20, 0x00, 1, 2, 3), local(2)},
	"v2 proxy, family unspec":  {v2(0x21, 0x00), local(2)},
	"v2 proxy, Unix client":    {v2(0x21, 0x31, make([]byte, 216)...), local(2)},
	"v2 of the greatest length": {
		v2(0x21, 0x11, with(addresses4, with([]byte{4, 4081 >> 8, 4081 & 0xff}, make([]byte, 4081)...)...)...),
		proxied(2, "192.0.2.1:4660", "198.51.100.2:80"),
	},
	"v2 IPv6-mapped IPv4": {
		v2(0x21, 0x21, append(append(netip.MustParseAddr("::ffff:192.0.2.1").AsSlice(), make([]byte, 16)...), 0, 1, 0, 2)...),
		proxied(2, "192.0.2.1:1", "[::]:2"),
	},
}

func TestHeaderIsParsedAndThePayloadLeftAlone(t *testing.T) {
	t.Parallel()
	for name, test := range headers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, payload := range []string{"", "GET / HTTP/1.1\r\n\r\n", "PROXY UNKNOWN\r\n"} {
				h, n, err := Parse(with(test.in, []byte(payload)...))
				require.NoError(t, err)
				assert.Equal(t, test.want, h)
				assert.Len(t, test.in, n)
			}
		})
	}
}

func TestHeadersOfHAProxy(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Header{
		"haproxy-v1-tcp4":     proxied(1, "127.0.0.1:41346", "127.0.0.1:18101"),
		"haproxy-v1-tcp6":     proxied(1, "[::1]:53182", "[::1]:18101"),
		"haproxy-v1-unix":     local(1),
		"haproxy-v2-tcp4":     proxied(2, "127.0.0.1:50686", "127.0.0.1:18102"),
		"haproxy-v2-tcp6":     proxied(2, "[::1]:60326", "[::1]:18102"),
		"haproxy-v2-unix":     local(2),
		"haproxy-v2-tcp4-tls": proxied(2, "127.0.0.1:45428", "127.0.0.1:18103"),
		"haproxy-v2-tcp6-tls": proxied(2, "[::1]:44422", "[::1]:18103"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := capture(t, name)
			h, n, err := Parse(b)
			require.NoError(t, err)
			assert.Equal(t, want, h)
			assert.Len(t, b, n)
			inSteps(t, b, want)
		})
	}
}

func TestHeaderInSingleBytes(t *testing.T) {
	t.Parallel()
	for name, test := range headers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := range test.in {
				_, _, err := Parse(test.in[:n])
				require.ErrorIs(t, err, ErrMore, "after %d bytes", n)
			}
			inSteps(t, test.in, test.want)
		})
	}
}

// inSteps gives Parse what it asks for and no more, as a reader does that must
// not take payload.
func inSteps(t *testing.T, header []byte, want Header) {
	t.Helper()
	have := 0
	for {
		h, n, err := Parse(header[:have])
		if err == nil {
			assert.Equal(t, want, h)
			assert.Len(t, header, n)
			return
		}
		require.ErrorIs(t, err, ErrMore)
		require.Greater(t, n, have)
		require.LessOrEqual(t, n, len(header), "asks for payload")
		have = n
	}
}

func TestWhatIsNoHeaderIsRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		in     []byte
		reason string
	}{
		"TLS client hello":              {[]byte{0x16, 3, 1}, "no signature"},
		"HTTP":                          {[]byte("POST / HTTP/1.1\r\n"), "no signature"},
		"HTTP method that begins alike": {[]byte("PROPFIND"), "no signature"},
		"v1 signature with a tab":       {[]byte("PROXY\t"), "no signature"},
		"v1 in lower case":              {[]byte("p"), "no signature"},
		"v1 without carriage return":    {[]byte("PROXY UNKNOWN\n"), "must end with"},
		"v1 without an end":             {[]byte("PROXY UNKNOWN " + strings.Repeat("x", 93)), "no end of line"},
		"v1 one byte too long":          {[]byte("PROXY UNKNOWN " + strings.Repeat("x", 92) + "\r\n"), "no end of line"},
		"v1 without a family":           {[]byte("PROXY \r\n"), "family"},
		"v1 of an unknown family":       {[]byte("PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n"), "family"},
		"v1 IPv4 said to be IPv6":       {[]byte("PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n"), "address"},
		"v1 IPv6 said to be IPv4":       {[]byte("PROXY TCP4 ::1 ::1 1 2\r\n"), "address"},
		"v1 with a zone":                {[]byte("PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n"), "address"},
		"v1 with a host name":           {[]byte("PROXY TCP4 localhost 192.0.2.2 1 2\r\n"), "address"},
		"v1 with port 65536":            {[]byte("PROXY TCP4 192.0.2.1 192.0.2.2 65536 2\r\n"), "port"},
		"v1 with a negative port":       {[]byte("PROXY TCP4 192.0.2.1 192.0.2.2 -1 2\r\n"), "port"},
		"v1 with two spaces":            {[]byte("PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n"), "family"},
		"v1 with a trailing space":      {[]byte("PROXY TCP4 192.0.2.1 192.0.2.2 1 2 \r\n"), "family"},
		"v2 signature with a wrong end": {[]byte("\r\n\r\n\x00\r\nQUIT\r"), "no signature"},
		"empty lines":                   {[]byte("\r\n\r\n\r"), "no signature"},
		"version 3":                     {v2(0x31, 0x11)[:13], "version and command"},
		"unknown command":               {v2(0x22, 0x11)[:13], "version and command"},
		"v2 of an unknown family":       {v2(0x21, 0x41, addresses4...), "family"},
		"v2 of an unknown transport":    {v2(0x21, 0x13, addresses4...), "family"},
		"v2 with half an address":       {v2(0x21, 0x11, addresses4[:11]...), "length"},
		"v2 with half an IPv6 address":  {v2(0x21, 0x21, addresses4...), "length"},
		"v2 with half a field":          {v2(0x21, 0x11, with(addresses4, 4, 0)...), "truncated TLV"},
		"v2 with a field that lies":     {v2(0x21, 0x11, with(addresses4, 4, 0, 2, 0)...), "truncated TLV"},
		"v2 one byte too long":          {v2(0x20, 0x00, make([]byte, 4097)...)[:16], "at most 4112"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, n, err := Parse(test.in)
			require.ErrorIs(t, err, ErrInvalid)
			require.NotErrorIs(t, err, ErrMore)
			require.ErrorContains(t, err, test.reason)
			assert.Zero(t, n)
		})
	}
}

func TestTheFirstWrongByteIsEnough(t *testing.T) {
	t.Parallel()
	for _, signature := range [][]byte{[]byte("PROXY "), pp.SIGV2} {
		for i := range signature {
			b := bytes.Clone(signature[:i+1])
			b[i] ^= 0x80
			_, _, err := Parse(b)
			assert.ErrorIs(t, err, ErrInvalid, "%q", b)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for _, name := range []string{"haproxy-v1-tcp4", "haproxy-v2-tcp4", "haproxy-v2-tcp4-tls"} {
		b.Run(name, func(b *testing.B) {
			in := capture(b, name)
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := Parse(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
