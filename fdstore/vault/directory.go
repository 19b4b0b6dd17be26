package vault

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore"
)

// enter puts a segment into the directory; false = that is full.
func (v *Vault) enter(s *segment) bool {
	v.listing.Lock()
	defer v.listing.Unlock()
	for i := range v.places {
		if v.places[i].Load() != nil {
			continue
		}
		s.place = i
		in := -1
		if s.in != nil {
			in = s.in.Raw()
		}
		at := v.table.pair(i)
		v.table.uint32At(at + 4).Store(uint32(in))
		v.table.uint32At(at + 8).Store(uint32(s.out.Raw()))
		v.table.uint32At(at).Store(s.id) // last: now it is one
		v.places[i].Store(s)
		return true
	}
	return false
}

// leave takes a segment out of the directory and closes it; false = somebody has the
// list of files, or it is not empty.
func (v *Vault) leave(s *segment) bool {
	v.listing.Lock()
	defer v.listing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.lent > 0 || s.mirror.len() > 0 {
		return false
	}
	s.gone = true
	v.table.uint32At(v.table.pair(s.place)).Store(0)
	v.places[s.place].Store(nil)
	if err := s.close(); err != nil {
		v.o.Log.Warn("give up a segment of the vault", "segment", s.id, "error", err)
	}
	return true
}

// Files lists the table and both ends of all segments, to hand the vault over to
// another process. The descriptors are lent: until release is called none is closed, and
// nothing gets into a segment that is not among them.
//
// The other one cannot restore before this one is gone, or has closed the vault: two
// owners would take each other's records out of the queues.
func (v *Vault) Files() (files []fdstore.Entry, release func()) {
	v.listing.Lock()
	defer v.listing.Unlock()
	v.lent++
	return v.files(), v.release
}

func (v *Vault) release() {
	v.listing.Lock()
	v.lent--
	v.listing.Unlock()
	if !v.isLent() {
		v.publish(v.takeLate())
	}
}

func (v *Vault) isLent() bool {
	v.listing.Lock()
	defer v.listing.Unlock()
	return v.lent > 0
}

// files are in the order in which they have to be stored: who finds a segment finds
// the table as well.
func (v *Vault) files() []fdstore.Entry {
	files := []fdstore.Entry{{Name: TableName, FD: v.table.fd.Raw()}}
	for s := range v.segments {
		files = append(files, s.entries()...)
	}
	return files
}

func (s *segment) entries() []fdstore.Entry {
	out := fdstore.Entry{Name: outName(s.id), FD: s.out.Raw()}
	if s.in == nil {
		return []fdstore.Entry{out}
	}
	return []fdstore.Entry{{Name: inName(s.id), FD: s.in.Raw()}, out}
}

// Location is a file of a vault in the process that owns it.
type Location struct {
	Name string // as in a store
	FD   int    // in that process
}

// Locate tells where the other files of a vault are in the process that owns it, by
// a copy of its table: for who takes it over from a process that does not answer, with
// pidfd_getfd(2). The process should be stopped, or the list may be old as soon as it
// is read. owner is its ID as it knows it itself, in its PID name space; 0 = nobody
// owns it at the moment.
func Locate(table int) (files []Location, owner int, err error) {
	l, err := inspect(table)
	if err != nil {
		return nil, 0, err
	}
	var pid [4]byte
	directory := make([]byte, l.pairs*pairSize)
	_, errPID := unix.Pread(table, pid[:], atOwner)
	n, errDirectory := unix.Pread(table, directory, int64(l.pairsAt))
	if err := errors.Join(errPID, errDirectory); err != nil {
		return nil, 0, fmt.Errorf("read the directory of a vault: %w", err)
	}
	return parseDirectory(directory[:n]), int(int32(binary.NativeEndian.Uint32(pid[:]))), nil
}

// parseDirectory leaves out what makes no sense.
func parseDirectory(directory []byte) (files []Location) {
	for ; len(directory) >= pairSize; directory = directory[pairSize:] {
		id := binary.NativeEndian.Uint32(directory)
		in, out := int32(binary.NativeEndian.Uint32(directory[4:])), int32(binary.NativeEndian.Uint32(directory[8:]))
		if id == 0 || id > mostID {
			continue
		}
		if in >= 0 {
			files = append(files, Location{Name: inName(id), FD: int(in)})
		}
		if out >= 0 {
			files = append(files, Location{Name: outName(id), FD: int(out)})
		}
	}
	return files
}
