package integration

import (
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// demo is what `make demo` runs.
func demo(kills int, environment ...string) *exec.Cmd {
	cmd := exec.Command("go", "run", "github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/demo/kills",
		"-kills", strconv.Itoa(kills), testbed.Binary)
	cmd.Env = append(os.Environ(), environment...)
	return cmd
}

func TestTheDemoShowsThatHashesMatch(t *testing.T) {
	t.Parallel()
	said, err := demo(unlessShort(4, 1)).CombinedOutput()
	require.NoError(t, err, "%s", said)
	assert.Contains(t, string(said), "They match")
}

func TestTheDemoFailsWhenTheConnectionDoesNotLiveOn(t *testing.T) {
	t.Parallel()
	said, err := demo(1, "HOLDFAST_GLOBAL_KEEP=listeners").CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 1, exit.ExitCode())
	assert.Contains(t, string(said), "cut off")
}
