package image

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// containedScript runs the command after it where /proc shows what runs beside it.
const containedScript = `mount -t proc proc /proc && exec "$@"`

// runContained runs a program to its end, as root. It and all that it starts are in
// mount and process namespaces of their own: this host never sees what they mount,
// and nothing of them outlives the program, ctx, or this process, whichever way
// these end. A tool that unmounts what it has mounted cannot promise that: nobody
// unmounts for one that was killed, and who later removes its folder removes
// through the mounts. env is what it has in its environment besides that of this
// process. An error has the end of its output.
func runContained(ctx context.Context, env []string, program string, args ...string) error {
	runtime.LockOSThread() // the death signal is for the end of the thread
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", containedScript, "sh", program}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	// The program is the first of its namespace: with it, the kernel ends all others.
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID, Unshareflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, lastLines(string(out), 30))
	}
	return nil
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
