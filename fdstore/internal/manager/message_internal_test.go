package manager

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "READY=1", "A=1\nB=2\n", "A\x00", "\x00", "A\x00B", "\r\n\n", "=", "FDSTORE=1\nFDNAME=a:b"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		lines, err := parse(text)
		if err != nil {
			assert.Empty(t, lines)
			return
		}
		m := Message{Lines: lines}
		for _, line := range lines {
			assert.NotEmpty(t, line)
			assert.NotContains(t, line, "\n")
		}
		if name, valid := m.fdName(); valid {
			assert.LessOrEqual(t, len(name), 255)
			assert.NotContains(t, name, ":")
		}
	})
}
