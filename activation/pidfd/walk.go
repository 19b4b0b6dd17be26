package pidfd

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// walk is one way through the descriptors of a process. /proc says which numbers are
// worth a try; what is behind one is only believed of the descriptor itself.
type walk struct {
	process *Process
	dir     *procDir
	seen    map[uint64]bool // by SO_COOKIE
	found   []Found
}

func (w *walk) run(ctx context.Context) error {
	if err := w.process.allowed(); err != nil {
		return err
	}
	dir, err := w.process.procDir()
	if err != nil {
		return err
	}
	defer dir.close()
	w.dir = dir
	numbers, err := w.numbers()
	if err != nil {
		return w.process.orExited(err)
	}
	for _, number := range numbers {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.visit(number); err != nil {
			return err
		}
	}
	return w.process.orExited(nil) // a descriptor may have been gone for that reason
}

// numbers are those of the open descriptors. The right to take them is not the right
// to list fd: that is for the user of the process, and CAP_DAC_READ_SEARCH. fdinfo
// has the same names, and asks for less since Linux 5.14.
func (w *walk) numbers() ([]int, error) {
	names, err := w.dir.list("fd")
	if errors.Is(err, unix.EACCES) {
		names, err = w.dir.list("fdinfo")
	}
	if err != nil {
		return nil, err
	}
	if len(names) == 0 && w.dir.mainThreadEnded() {
		return nil, errMainThread
	}
	numbers := make([]int, 0, len(names))
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}

// visit takes what is open under a number if clients get to it. Other things than
// sockets are not touched where /proc shows what they are: some do more than nothing
// when a descriptor is closed, files of NFS for example.
func (w *walk) visit(number int) error {
	link, err := w.dir.link("fd/" + strconv.Itoa(number))
	if err != nil && !errors.Is(err, unix.EACCES) || err == nil && !strings.HasPrefix(link, "socket:") {
		return nil // closed meanwhile, or no socket
	}
	fd, err := w.process.get(number)
	if errors.Is(err, unix.EBADF) {
		return nil
	}
	if err != nil {
		return err
	}
	found, wanted, err := w.look(number, fd)
	if err != nil || !wanted {
		return errors.Join(err, fd.Close())
	}
	w.found = append(w.found, found)
	return nil
}

// look tells whether a descriptor is one of those that the walk is for.
func (w *walk) look(number int, fd *sock.FD) (f Found, wanted bool, err error) {
	if !mayHaveClients(fd.Raw()) {
		return Found{}, false, nil
	}
	info, err := sock.Classify(fd.Raw())
	if err != nil {
		return Found{}, false, err
	}
	if w.seen[info.Cookie] || !info.Listening && (info.Connected || info.Addr.AddrPort.Port() == 0) {
		return Found{}, false, nil
	}
	flags, err := unix.FcntlInt(uintptr(fd.Raw()), unix.F_GETFL, 0)
	if err != nil {
		return Found{}, false, err
	}
	if path := info.Addr.Path; path != "" && path[0] != '@' {
		info.Addr.Path = currentPath(fd.Raw(), path)
	}
	w.seen[info.Cookie] = true
	return Found{FD: fd, Number: number, Info: info, Blocking: flags&unix.O_NONBLOCK == 0}, true, nil
}

// mayHaveClients sorts out most of what is open, with few questions: a proxy has one
// listening socket for thousands of connections.
func mayHaveClients(fd int) bool {
	accepts, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err == nil && accepts != 0 {
		return true
	}
	protocol, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	return err == nil && protocol == unix.IPPROTO_UDP
}

// drop closes what was taken. The process goes on with it.
func (w *walk) drop() {
	for _, f := range w.found {
		_ = f.FD.Close() // there are others
	}
	w.found = nil
}
