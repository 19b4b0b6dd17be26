package systemd

import (
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestStoreSize(t *testing.T) {
	for value, want := range map[string]int{
		"":           0,
		"4096":       4096,
		"0":          0,
		"4294967295": math.MaxUint32,
		"4294967296": 0,
		"-1":         0,
		"many":       0,
		"4096\n":     0,
	} {
		t.Run(value, func(t *testing.T) {
			t.Setenv("FDSTORE", value)
			assert.Equal(t, want, StoreFromEnv())
			assert.NotContains(t, strings.Join(os.Environ(), "\n"), "FDSTORE", "children have no store")
		})
	}
}

func FuzzStore(f *testing.F) {
	for _, seed := range []string{"", "4096", "-1", "0x10", "4294967296", "1e3"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		n := parseStore(value)
		assert.GreaterOrEqual(t, n, 0)
		if n > 0 {
			again, err := strconv.Atoi(value)
			assert.NoError(t, err)
			assert.Equal(t, again, n)
		}
	})
}
