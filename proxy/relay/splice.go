package relay

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// pipe is one that is open for both reading and writing, by one descriptor.
type pipe struct {
	fd   int32  // -1 = none
	slot uint32 // in the vault, where it is kept
	kind pipeKind
}

// pipeKind says what a pipe is for.
type pipeKind uint8

const (
	wide pipeKind = iota // bulk, by splice
	slim                 // what was read into a buffer, for a Unix socket, when there is no wide one
	pipeKinds
)

// noPipe marks a direction that has none.
var noPipe = pipe{fd: -1}

const (
	// pipeSize is what one splice moves at most. Beside the kernel's default of
	// 64 KiB it takes a quarter off the CPU time of a gigabyte.
	pipeSize = 256 << 10
	// leastPipe is the kernel's default. Beyond a user's share of pipe memory
	// (fs.pipe-user-pages-soft, 64 MiB) it gives two pages, which are of no use to
	// splice.
	leastPipe = 64 << 10
	// mostPipes bounds the wide pipes of all loops together, within that share.
	mostPipes = 240
	// slimSize is what two pages take, which the kernel always gives. Where pages are
	// larger than 4 KiB they take more.
	slimSize = 8 << 10
	// smallSplice and smallAfter: this many splices in a row below this size end
	// the bulk mode.
	smallSplice = 8 << 10
	smallAfter  = 4
)

// pipePool hands out pipes of one kind to one loop.
type pipePool struct {
	kind  pipeKind
	vault Vault // where each pipe is kept before it is used; nil = nowhere
	free  []pipe
	made  int
	most  int
	fast  int  // that are in use at most when one is taken for speed alone
	off   bool // none could be had: not to be tried again before trim

	ceiling func() int // descriptors from this number up are not for pipes
}

// get takes an empty pipe, or noPipe where none can be had: the direction then
// goes on with buffers.
func (p *pipePool) get() pipe {
	if n := len(p.free); n > 0 {
		got := p.free[n-1]
		p.free = p.free[:n-1]
		return got
	}
	if p.off || p.made >= p.most {
		return noPipe
	}
	made, ok := p.open()
	if !ok {
		p.off = true
		return noPipe
	}
	p.made++
	return made
}

// open makes a pipe.
func (p *pipePool) open() (pipe, bool) {
	fd, ok := newPipe(p.kind)
	if !ok {
		return noPipe, false
	}
	if int(fd) < p.ceiling() { // the last descriptors are for others
		if made, ok := p.keep(fd); ok {
			return made, true
		}
	}
	closeFD(fd)
	return noPipe, false
}

// getForSpeed is get for a direction that goes on without one as well: most are left to
// those that must have one, where descriptors are few.
func (p *pipePool) getForSpeed() pipe {
	if p.made-len(p.free) >= p.fast {
		return noPipe
	}
	return p.get()
}

// keep leaves a new pipe in the vault, if there is one.
func (p *pipePool) keep(fd int32) (pipe, bool) {
	if p.vault == nil {
		return pipe{fd: fd, kind: p.kind}, true
	}
	number, memory, ok := p.vault.Take()
	if !ok {
		return noPipe, false
	}
	slotIn(memory).setState(slotPipe)
	return pipe{fd, number, p.kind}, p.vault.Keep(number, fd, -1)
}

// put gives an empty pipe back.
func (p *pipePool) put(back pipe) { p.free = append(p.free, back) }

// discard gives back a pipe that may hold bytes nobody wants any more.
func (p *pipePool) discard(back pipe, holds uint32) {
	if holds == 0 {
		p.put(back)
		return
	}
	p.remove(back)
}

func (p *pipePool) remove(one pipe) {
	if p.vault != nil {
		p.vault.Drop(one.slot)
	}
	closeFD(one.fd)
	p.made--
}

func (p *pipePool) close() {
	for _, one := range p.free {
		p.remove(one)
	}
	p.free = nil
}

// keptPipes is how many free pipes stay open after a burst.
const keptPipes = 8

// idle tells whether trim has something to do.
func (p *pipePool) idle() bool { return p.off || len(p.free) > keptPipes }

// trim closes the pipes that a burst left over, and lets a shortage be over.
func (p *pipePool) trim() {
	p.off = false
	for p.idle() {
		last := p.free[len(p.free)-1]
		p.free = p.free[:len(p.free)-1]
		p.remove(last)
	}
}

// newPipe makes a pipe that is one descriptor: reopened for both ways, both its
// ends are closed, and the bytes in it live as long as that one. It is false where none
// of that size can be had.
func newPipe(kind pipeKind) (fd int32, ok bool) {
	wanted, least := pipeSize, leastPipe
	if kind == slim {
		wanted, least = slimSize, slimSize
	}
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return -1, false
	}
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	size, err := unix.FcntlInt(uintptr(ends[0]), unix.F_SETPIPE_SZ, wanted)
	if err != nil { // above the share, or above fs.pipe-max-size
		size, err = unix.FcntlInt(uintptr(ends[0]), unix.F_GETPIPE_SZ, 0)
	}
	if err != nil || size < least {
		return -1, false
	}
	reopened, err := unix.Open("/proc/self/fd/"+strconv.Itoa(ends[0]), unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	return int32(reopened), err == nil
}

// kindOf tells the kind of a pipe that another process has made. Where two pages are large
// enough to be wide they may be.
func kindOf(fd int32) pipeKind {
	if size, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0); err == nil && size >= leastPipe {
		return wide
	}
	return slim
}

// spliceIn moves bytes from the source into the empty pipe.
func (l *loop) spliceIn(f *flow, src *side) (int, result) {
	n, errno := splice(src.fd, f.pipe.fd, pipeSize)
	if errno != 0 || n == 0 {
		return 0, l.noBytes(src, errno)
	}
	f.piped = uint32(n)
	if n >= smallSplice {
		f.small = 0
	} else {
		f.small++
	}
	return n, progressed
}

// spliceOut moves bytes from the pipe to the destination. With the pipe empty the
// direction may go back to buffers.
func (l *loop) spliceOut(p *pair, f *flow, dst *side) result {
	n, errno := splice(f.pipe.fd, dst.fd, int(f.piped))
	if errno != 0 {
		return refused(dst, errno)
	}
	p.active = l.now
	f.piped -= uint32(n)
	if f.piped > 0 {
		return progressed // the pipe gives its pages in pieces: only EAGAIN says that it is full
	}
	if f.small >= smallAfter {
		f.small = 0
		l.releasePipe(p, f)
	}
	return progressed
}
