package vault

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
)

// Found is what a former life has left.
type Found struct {
	Kept []Kept
	Lost []Lost
}

// Kept is a connection or a pipe that goes on. The descriptors are the caller's.
type Kept struct {
	Slot   uint32
	Memory []byte   // the slot's 240 bytes of the table, as they were
	FDs    [2]int32 // close-on-exec, in the order of Keep; the second is -1 if there was one
}

// Lost is a connection that was kept and cannot go on. Where its descriptors came at
// all they were reset, so that no peer takes a part for the whole, and closed.
type Lost struct {
	Memory []byte // a copy of its slot; nil = not known
	Reason string // for people
}

// Restore takes a vault over from a process that is gone, or has closed it. files are the
// table and the segments, by their names in the store; they are the vault's, whatever
// happens. The store has them still, see Entrust.
//
// It is ErrOwned while the owner lives, and nothing was touched.
//
// With ErrUnreadable all connections that were there are lost, and have been reset. They
// are in Found, and so are those that were dropped lately: nobody can tell. The caller
// goes on with New. Any other error is one of this process and this moment, such as a
// lack of memory, and nothing is lost until the store is: a restart may do better.
//
// Nothing is taken out of a queue: a process that is killed while it restores leaves
// all to the next one.
func Restore(o Options, files []fdstore.Held) (*Vault, Found, error) {
	o, err := o.withDefaults()
	p := sortFiles(files)
	if err != nil {
		return nil, Found{}, fmt.Errorf("restore the vault: %w", errors.Join(err, p.close()))
	}
	t, err := p.openTable(o)
	if err != nil {
		var found Found
		if errors.Is(err, ErrUnreadable) {
			found = p.resetAll(err)
		}
		return nil, found, fmt.Errorf("restore the vault: %w", errors.Join(err, p.close()))
	}
	r := &restoration{vault: newVault(o, t)}
	r.restore(p)
	if err := r.vault.addFirst(); err != nil { // it is tried again, and what is there goes on without
		o.Log.Warn("the restored vault cannot grow yet", "error", err)
	}
	r.vault.begin()
	return r.vault, r.found, nil
}

// Discard resets all connections in a vault that nobody goes on with, as far as this process
// can open them, and tells how many records it has found; some may have been dropped lately.
// The files are closed. While the owner lives they are his, and nothing else is done.
func Discard(files []fdstore.Held) int {
	owned := IsOwned(files)
	p := sortFiles(files)
	defer func() { _ = p.close() }()
	if owned {
		return 0
	}
	return len(p.resetAll(ErrUnreadable).Lost)
}

// parts are the files of a vault, sorted.
type parts struct {
	table     *sock.FD
	claim     *sock.FD   // on the table; nil = none yet
	segments  []*segment // by ID; in may be nil
	queueLost bool       // of a segment there is the end that one sends to, and not the queue
}

// sortFiles closes what is of no use: other names, second files of a name, what is no
// SEQPACKET socket, and ends to send to whose queue is missing.
func sortFiles(files []fdstore.Held) *parts {
	p := &parts{}
	byID := map[uint32]*segment{}
	for _, f := range files {
		id, out, ok := parseName(f.Name)
		switch {
		case f.Name == TableName && p.table == nil:
			p.table = f.FD
			continue
		case !ok || !isQueue(f.FD.Raw()):
			_ = f.FD.Close()
			continue
		}
		if byID[id] == nil {
			byID[id] = &segment{id: id}
		}
		end := &byID[id].in
		if out {
			end = &byID[id].out
		}
		if *end != nil {
			_ = f.FD.Close()
			continue
		}
		*end = f.FD
	}
	for _, s := range byID {
		if s.out == nil {
			p.queueLost = true
			_ = s.in.Close()
			continue
		}
		p.segments = append(p.segments, s)
	}
	slices.SortFunc(p.segments, func(a, b *segment) int { return cmp.Compare(a.id, b.id) })
	return p
}

func isQueue(fd int) bool {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil || domain != unix.AF_UNIX {
		return false
	}
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	return err == nil && kind == unix.SOCK_SEQPACKET
}

func (p *parts) openTable(o Options) (*table, error) {
	if p.table == nil {
		return nil, fmt.Errorf("%w: it is missing", ErrUnreadable)
	}
	var err error
	if p.claim, err = claim(p.table); err != nil {
		return nil, err
	}
	l, err := inspect(p.table.Raw())
	if err != nil {
		return nil, err
	}
	if !readable(l.userFormat, l.userReaders, o.Format, o.Reads) {
		return nil, fmt.Errorf("%w: its content has format %d, and this program reads %d to %d", ErrUnreadable, l.userFormat, o.Reads, o.Format)
	}
	t, err := mapTable(p.table, p.claim, l)
	if err != nil {
		return nil, err
	}
	if err := t.try(o.Attempts); err != nil {
		return nil, errors.Join(err, t.unmap())
	}
	return t, nil
}

// resetAll ends what nobody can go on with.
func (p *parts) resetAll(reason error) (found Found) {
	for _, s := range p.segments {
		_ = eachRecord(s.out.Raw(), func(l letter) (again bool) {
			l.reset()
			l.close()
			found.Lost = append(found.Lost, Lost{Reason: reason.Error()})
			return false
		})
	}
	return found
}

func (p *parts) close() error {
	var errs []error
	for _, fd := range []*sock.FD{p.table, p.claim} {
		if fd != nil {
			errs = append(errs, fd.Close())
		}
	}
	for _, s := range p.segments {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}
