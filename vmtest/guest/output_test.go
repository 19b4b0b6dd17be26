package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOfALongOutputBothEndsAreKept(t *testing.T) {
	const digits = "0123456789"
	for written, want := range map[string]string{
		"":                                "",
		"01":                              "01",
		digits[:7]:                        digits[:7],
		digits[:8]:                        digits[:8],
		digits[:9]:                        "0123\n(… 1 bytes were cut out …)\n5678",
		digits + digits:                   "0123\n(… 12 bytes were cut out …)\n6789",
		strings.Repeat(digits, 100) + "!": "0123\n(… 993 bytes were cut out …)\n789!",
	} {
		for _, piece := range []int{1, 3, 5, 1000} {
			o := newOutput(8)
			for rest := []byte(written); len(rest) > 0; {
				n, err := o.Write(rest[:min(piece, len(rest))])
				require.NoError(t, err)
				rest = rest[n:]
			}
			assert.Equal(t, want, string(o.bytes()), "in pieces of %d", piece)
			assert.LessOrEqual(t, len(o.tail), 4)
		}
	}
}
