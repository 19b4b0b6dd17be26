package image

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNothingThatAStepMountsOrStartsOutlivesIt(t *testing.T) {
	const script = `mount -t tmpfs tmpfs "$0/mounted"; setsid sleep 1000 & until [ -e "$0/go" ]; do sleep 0.01; done`
	tests := map[string]func(t *testing.T, dir string, cancel func()){
		"when it ends":      func(t *testing.T, dir string, _ func()) { require.NoError(t, os.WriteFile(dir+"/go", nil, 0o644)) },
		"when it is killed": func(_ *testing.T, _ string, cancel func()) { cancel() },
	}
	for name, end := range tests {
		t.Run(name, func(t *testing.T) {
			dir := mountDir(t)
			require.NoError(t, os.Mkdir(filepath.Join(dir, "mounted"), 0o755))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = runContained(ctx, nil, "sh", "-c", script, dir) // killed or not
			}()
			pids := awaitMountsBelow(t, dir, ended)
			assert.NotContains(t, pids, os.Getpid(), "this host sees the mount")
			end(t, dir, cancel)
			<-ended
			assertGone(t, dir, pids)
		})
	}
}

func TestAStepThatFailsIsToldWithTheEndOfItsOutput(t *testing.T) {
	mountDir(t)
	err := runContained(t.Context(), []string{"WORD=hello"}, "sh", "-c", `seq 1000; echo "$WORD" >&2; exit 3`)
	require.ErrorContains(t, err, "sh: exit status 3\n")
	assert.Contains(t, err.Error(), "\n1000\nhello")
	assert.NotContains(t, err.Error(), "\n100\n")
}
