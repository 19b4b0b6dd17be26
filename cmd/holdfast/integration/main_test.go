package integration

import (
	"os"
	"testing"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

func TestMain(m *testing.M) {
	os.Exit(testbed.WithBinary(m.Run))
}

// unlessShort is the first amount, or the second under -short.
func unlessShort(full, short int) int {
	if testing.Short() {
		return short
	}
	return full
}
