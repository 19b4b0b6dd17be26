package vault

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// sealed is what nobody can do to a table any more: a file that shrinks under its
// mapping is a SIGBUS in every process that has it.
const sealed = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW

// table is the shared memory: a memfd and its mapping.
type table struct {
	layout

	fd    *sock.FD
	claim *sock.FD // on fd: while it is open nobody else restores
	mem   []byte
}

// newTable makes an empty table.
func newTable(l layout) (*table, error) {
	fd, err := newMemfd(l.size)
	if err != nil {
		return nil, fmt.Errorf("make a vault's table: %w", err)
	}
	owned, err := claim(fd)
	if err != nil {
		return nil, fmt.Errorf("make a vault's table: %w", errors.Join(err, fd.Close()))
	}
	t, err := mapTable(fd, owned, l)
	if err != nil {
		return nil, fmt.Errorf("make a vault's table: %w", errors.Join(err, owned.Close(), fd.Close()))
	}
	l.writeHeader(t.mem[:pageSize])
	return t, nil
}

func newMemfd(size int) (*sock.FD, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	raw, err := unix.MemfdCreate(MemfdName, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		raw, err = unix.MemfdCreate(MemfdName, flags)
	}
	if err != nil {
		return nil, err
	}
	fd := sock.NewFD(raw)
	if err := unix.Ftruncate(raw, int64(size)); err != nil {
		return nil, errors.Join(err, fd.Close())
	}
	if _, err := unix.FcntlInt(uintptr(raw), unix.F_ADD_SEALS, sealed); err != nil {
		return nil, errors.Join(err, fd.Close())
	}
	return fd, nil
}

// ErrUnreadable means that no second try will make a table readable: it is missing, it
// is none, another version's, or has been tried too often.
var ErrUnreadable = errors.New("the vault's table cannot be read")

// inspect reads the header of a table.
func inspect(fd int) (layout, error) {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || seals&sealed != sealed {
		return layout{}, fmt.Errorf("%w: it is not a sealed memfd", ErrUnreadable)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return layout{}, fmt.Errorf("stat of a vault's table: %w", err)
	}
	header := make([]byte, headerEnd)
	n, err := unix.Pread(fd, header, 0)
	if err != nil {
		return layout{}, fmt.Errorf("read the header of a vault's table: %w", err)
	}
	l, err := parseHeader(header[:n], st.Size)
	if err != nil {
		return layout{}, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return l, nil
}

func mapTable(fd, owned *sock.FD, l layout) (*table, error) {
	mem, err := unix.Mmap(fd.Raw(), 0, l.size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &table{layout: l, fd: fd, claim: owned, mem: mem}, nil
}

func (t *table) close() error { return errors.Join(t.unmap(), t.fd.Close(), t.claim.Close()) }

func (t *table) unmap() error {
	mem := t.mem
	t.mem = nil
	return unix.Munmap(mem)
}

// uint64At and uint32At are words of the mapping, which begins on a page: the
// offsets of the layout keep them aligned.
func (t *table) uint64At(at int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&t.mem[at]))
}

func (t *table) uint32At(at int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&t.mem[at]))
}

// serial is who has the slot, 0 = nobody.
func (t *table) serial(slot uint32) *atomic.Uint64 {
	return t.uint64At(t.slot(slot))
}

// memory is the user's part of a slot.
func (t *table) memory(slot uint32) []byte {
	start := t.slot(slot)
	return t.mem[start+slotHead : start+slotSize : start+slotSize]
}

// bytes is how much memory is behind the table.
func (t *table) bytes() int64 {
	var st unix.Stat_t
	if unix.Fstat(t.fd.Raw(), &st) != nil {
		return 0
	}
	return st.Blocks * 512
}
