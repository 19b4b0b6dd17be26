package pidfd

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// Memfd takes the memory file of that name (memfd_create(2)) that has the lowest
// number. It is nil when the process has none. The name is the process's to choose:
// what comes has to be looked at. The file is opened anew: a lock that the process has on
// it (flock(2)) ends with the process.
func (p *Process) Memfd(name string) (*sock.FD, error) {
	if err := p.allowed(); err != nil {
		return nil, err
	}
	dir, err := p.procDir()
	if err != nil {
		return nil, err
	}
	defer dir.close()
	numbers, err := (&walk{process: p, dir: dir}).numbers()
	if err != nil {
		return nil, p.orExited(err)
	}
	for _, number := range numbers {
		link, err := dir.link("fd/" + strconv.Itoa(number))
		if err == nil && link == "/memfd:"+name+" (deleted)" {
			return p.openAnew(dir, number)
		}
	}
	return nil, p.orExited(nil)
}

func (p *Process) openAnew(dir *procDir, number int) (*sock.FD, error) {
	raw, err := unix.Openat(dir.fd.Raw(), "fd/"+strconv.Itoa(number), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, p.orExited(fmt.Errorf("open descriptor %d of %s anew: %w", number, p, err))
	}
	return sock.NewFD(raw), nil
}
