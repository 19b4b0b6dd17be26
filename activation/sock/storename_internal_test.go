package sock

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func FuzzParseStoreName(f *testing.F) {
	f.Add("socket/3f", uint64(1), uint64(2), uint64(3))
	f.Add("socket/3f.1a.2b07", uint64(0x3f), uint64(0x1a), uint64(0x2b07))
	f.Add("socket/ffffffffffffffff.0.0", uint64(0), uint64(0), uint64(0))
	f.Add("socket/03..x", ^uint64(0), ^uint64(0), ^uint64(0))
	f.Add("web", uint64(9), uint64(8), uint64(7))
	f.Fuzz(func(t *testing.T, name string, cookie, dev, ino uint64) {
		if n, ok := parseStoreName(name); ok {
			assert.Equal(t, name, n.String())
			assert.True(t, strings.HasPrefix(name, storePrefix))
			assert.LessOrEqual(t, len(name), 64)
		}
		for _, want := range []storeName{
			{cookie: cookie},
			{cookie: cookie, file: &socketFile{dev: dev, ino: ino}},
		} {
			got, ok := parseStoreName(want.String())
			assert.True(t, ok)
			assert.Equal(t, want, got)
		}
	})
}
