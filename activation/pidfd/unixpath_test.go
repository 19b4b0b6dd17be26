package pidfd_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

func init() {
	// Binds the first path from the directory that it is in, and lets it go on under
	// the second one, as HAProxy does.
	children["renames its socket"] = func(args []string) error {
		if err := os.Chdir(filepath.Dir(args[0])); err != nil {
			return err
		}
		if _, err := sock.Listen(sock.Unix(filepath.Base(args[0])), sock.Options{}); err != nil {
			return err
		}
		for {
			if err := say("there"); err != nil {
				return err
			}
			if err := os.Rename(args[0], waitToBeTold()); err != nil {
				return err
			}
		}
	}
}

func TestAUnixSocketIsWhereItsFileIs(t *testing.T) {
	needsRoot(t, "find a renamed file")
	dir := t.TempDir()
	bound, renamed := filepath.Join(dir, "x.tmp"), filepath.Join(dir, "x.sock")
	c := start(t, command("renames its socket", bound))
	p := open(t, c.Process.Pid)
	where := func() string {
		found := take(t, p)
		require.Len(t, found, 1)
		return found[0].Info.Addr.Path
	}

	var said string
	c.hears(t, &said)
	assert.Equal(t, bound, where(), "it was bound to a relative path")
	c.tells(t, renamed)
	c.hears(t, &said)
	assert.Equal(t, renamed, where())
	require.NoError(t, os.Remove(renamed))
	assert.Equal(t, "x.tmp", where(), "the file is gone: it is where it was bound")
}
