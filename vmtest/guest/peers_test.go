package main

import (
	"io"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func freeAddress(t *testing.T) address {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return address{"tcp", l.Addr().String()}
}

// Without a proxy between them each end sees what the other one did.
func TestEachFarewellIsSeen(t *testing.T) {
	for _, server := range []address{freeAddress(t), {"unix", filepath.Join(t.TempDir(), "s")}} {
		all, err := openPartings(server, []address{server})
		require.NoError(t, err)
		require.Len(t, all, 2*len(farewells))
		for _, p := range all {
			_, err := io.WriteString(p.goes, lastWords)
			require.NoError(t, err)
			require.NoError(t, p.act(p.goes))
			assert.NoError(t, p.verify(), p.what)
		}
	}
}

func TestAnotherFarewellIsNoticed(t *testing.T) {
	server := freeAddress(t)
	all, err := openPartings(server, []address{server})
	require.NoError(t, err)
	for _, p := range all {
		switch p.seen {
		case aReset:
			require.NoError(t, p.goes.Close())
		default:
			require.NoError(t, reset(p.goes))
		}
		assert.Error(t, p.verify(), p.what)
	}
}
