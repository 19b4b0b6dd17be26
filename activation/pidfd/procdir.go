package pidfd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// errNotInProc means that /proc does not show the process: it is not mounted, or is
// that of another PID name space, or hides other users' processes (hidepid=).
var errNotInProc = errors.New("/proc does not show it")

// procDir is /proc/PID of one process. Who has the directory open reads about that
// process or gets an error, also when the PID is another's by then.
type procDir struct {
	fd *sock.FD
}

func (p *Process) procDir() (*procDir, error) {
	pid := procPID(p.fd)
	if pid == 0 {
		return nil, p.orExited(errNotInProc)
	}
	raw, err := unix.Open("/proc/"+strconv.Itoa(pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		err = errNotInProc
	}
	if err != nil {
		return nil, p.orExited(err)
	}
	d := &procDir{fd: sock.NewFD(raw)}
	// The process lives, so the PID was its own when the directory was opened.
	if p.exited() {
		return nil, errors.Join(ErrExited, d.close())
	}
	return d, nil
}

// procPID is the PID under which /proc shows the process, which the kernel tells of
// a pidfd since Linux 5.3; 0 when it does not.
func procPID(pidfd *sock.FD) int {
	info, err := os.ReadFile(fmt.Sprintf("/proc/thread-self/fdinfo/%d", pidfd.Raw()))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(info) {
		if value, ok := bytes.CutPrefix(line, []byte("Pid:")); ok {
			pid, err := strconv.Atoi(string(bytes.TrimSpace(value)))
			if err == nil && pid > 0 { // -1 = it has exited
				return pid
			}
		}
	}
	return 0
}

// orExited is ErrExited when that is why something has failed, or else err.
func (p *Process) orExited(err error) error {
	if p.exited() {
		return ErrExited
	}
	return err
}

func (d *procDir) close() error {
	return d.fd.Close()
}

func (d *procDir) open(name string) (*os.File, error) {
	raw, err := unix.Openat(d.fd.Raw(), name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s in /proc: %w", name, err)
	}
	return os.NewFile(uintptr(raw), name), nil
}

func (d *procDir) read(name string) ([]byte, error) {
	f, err := d.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// list is the names in a directory, in the kernel's order.
func (d *procDir) list(name string) ([]string, error) {
	f, err := d.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list %s in /proc: %w", name, err)
	}
	return names, nil
}

// link is where a symbolic link leads to.
func (d *procDir) link(name string) (string, error) {
	var buf [256]byte // longer ones are paths of files, which nobody asks for
	n, err := unix.Readlinkat(d.fd.Raw(), name, buf[:])
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}
