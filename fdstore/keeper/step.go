package keeper

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// firstFD is the first passed descriptor: SD_LISTEN_FDS_START of sd_listen_fds(3).
const firstFD = 3

// Exec is the last step of a new process on its way to the command; see
// [Options].Step. It says in LISTEN_PID and WATCHDOG_PID that what it was passed is
// for this process, whose number nobody could know before, and becomes the command.
//
// It does so only when the keeper has made a note of this process. If the keeper dies
// before, so does it: a process that nobody knows must not run.
//
// It returns only with an error.
func Exec(command []string) error {
	if len(command) == 0 {
		return errors.New("no command")
	}
	fds, _ := strconv.Atoi(os.Getenv("LISTEN_FDS")) // 0 when none are passed
	if err := awaitKeeper(firstFD + fds); err != nil {
		return err
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	env, self := os.Environ(), strconv.Itoa(os.Getpid())
	if fds > 0 {
		env = append(env, "LISTEN_PID="+self)
	}
	if os.Getenv("WATCHDOG_USEC") != "" {
		env = append(env, "WATCHDOG_PID="+self)
	}
	if err := syscall.Exec(path, command, env); err != nil { // restores RLIMIT_NOFILE, too
		return &exec.Error{Name: path, Err: err}
	}
	return nil
}

// awaitKeeper waits for the keeper's byte, by the descriptor after the passed ones.
func awaitKeeper(gate int) error {
	// What came through exec is not close-on-exec; what the Go runtime opens is.
	flags, err := unix.FcntlInt(uintptr(gate), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC != 0 {
		return errors.New("this is a step of a keeper, and of no use without it")
	}
	defer unix.Close(gate)
	var n int
	err = unix.EINTR
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Read(gate, make([]byte, 1))
	}
	switch {
	case err != nil:
		return fmt.Errorf("wait for the keeper: %w", err)
	case n == 0:
		return errors.New("the keeper is gone")
	}
	return nil
}
