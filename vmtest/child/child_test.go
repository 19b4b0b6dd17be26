package child

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// victimVar makes this test binary start a process, print its number, and wait for the
// end.
const victimVar = "VMTEST_CHILD_VICTIM"

func TestMain(m *testing.M) {
	if os.Getenv(victimVar) == "" {
		os.Exit(m.Run())
	}
	p, err := Start(exec.Command("sleep", "1000"))
	if err != nil {
		panic(err)
	}
	fmt.Println(p.PID)
	select {}
}

func TestAProcessEndsWithTheOneThatHasStartedIt(t *testing.T) {
	const patience = 10 * time.Second
	out, in, err := os.Pipe()
	require.NoError(t, err)
	defer out.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stdout = append(os.Environ(), victimVar+"=1"), in
	victim, err := Start(cmd)
	require.NoError(t, err)
	defer victim.Kill()
	require.NoError(t, in.Close())
	require.NoError(t, out.SetReadDeadline(time.Now().Add(patience)))
	var pid int
	_, err = fmt.Fscanln(out, &pid)
	require.NoError(t, err)
	require.True(t, Runs(pid))
	victim.Kill()
	assert.Eventually(t, func() bool { return !Runs(pid) }, patience, 10*time.Millisecond)
}
