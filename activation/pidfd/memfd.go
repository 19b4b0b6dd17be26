package pidfd

import (
	"strconv"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// Memfd takes the memory file of that name (memfd_create(2)) that has the lowest
// number. It is nil when the process has none. The name is the process's to choose:
// what comes has to be looked at.
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
			return p.Get(number)
		}
	}
	return nil, p.orExited(nil)
}
