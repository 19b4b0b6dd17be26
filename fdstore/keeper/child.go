package keeper

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// thisProgram leads to the file that runs, also when it was replaced on disk.
const thisProgram = "/proc/self/exe"

// spawn starts the command with everything that is kept for it, as the leader of a
// session of its own: what is typed at a terminal is for the keeper, and the end of the
// terminal or of the keeper does not end the process.
//
// It gets descriptors 0, 1 and 2 of this process, those of sockets and store, and no
// other: all that is open here is close-on-exec.
func (k *keeper) spawn() (*process, error) {
	fds, names := k.passed()
	gate, opener, err := newGate()
	if err != nil {
		return nil, err
	}
	defer gate.Close()
	defer opener.Close()

	pidfd := -1
	files := []uintptr{0, 1, 2}
	for _, fd := range append(fds, gate.Raw()) {
		files = append(files, uintptr(fd))
	}
	argv := slices.Concat([]string{os.Args[0]}, k.options.Step, k.options.Command)
	pid, err := syscall.ForkExec(thisProgram, argv, &syscall.ProcAttr{ //nolint:gosec // to run what it is told is its purpose
		Env:   environment(os.Environ(), k.place, k.options, names),
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd},
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", k.options.Command[0], err)
	}
	p := newProcess(pid, pidfd)
	if err := k.place.note(pid); err != nil {
		// It serves all the same, but a keeper after this one does not find it.
		k.log.Error("the main process is not recorded", "pid", pid, "error", err.Error())
	}
	_, err = unix.Write(opener.Raw(), []byte{0})
	if err != nil && !errors.Is(err, unix.EPIPE) { // EPIPE: it was killed already
		k.log.Error("the main process does not come to run", "pid", pid, "error", err.Error())
	}
	return p, nil
}

// passed are the descriptors of a new process in their order, sockets first, and their
// names.
func (k *keeper) passed() (fds []int, names []string) {
	for _, s := range k.options.Sockets {
		fds, names = append(fds, s.FD.Raw()), append(names, s.Name)
	}
	for _, kept := range k.store.Kept() {
		fds, names = append(fds, kept.FD), append(names, kept.Name)
	}
	return fds, names
}

// newGate is a pipe by which the new process is let go; see Exec.
func newGate() (gate, opener *sock.FD, err error) {
	pipe := make([]int, 2)
	if err := unix.Pipe2(pipe, unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("pipe: %w", err)
	}
	return sock.NewFD(pipe[0]), sock.NewFD(pipe[1]), nil
}
