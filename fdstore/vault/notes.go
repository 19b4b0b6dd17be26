package vault

import (
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MaxNote is how many bytes a note has at most.
const MaxNote = noteSize - noteHead - noteTail

// notes hands out the notes of the table. They are few and change seldom.
type notes struct {
	table *table

	mu   sync.Mutex
	from uint32 // below it, all are taken
}

func newNotes(t *table) notes {
	return notes{table: t}
}

// Note writes down what many slots refer to by its number, such as the name of a
// listener: at most MaxNote bytes. It is the next process's too, until DropNote. It is
// false when the content is too long, or no note is free.
func (w *Writer) Note(content []byte) (number uint32, ok bool) {
	return w.vault.notes.add(content)
}

// DropNote frees a note that no slot refers to any more. Any goroutine may.
func (w *Writer) DropNote(number uint32) {
	w.vault.notes.drop(number)
}

// Counter is a number that goes with a note, of this life or a former one: 0 in a new
// note, the next process's too, and any goroutine's until DropNote.
func (w *Writer) Counter(number uint32) *atomic.Int64 {
	return w.vault.notes.counter(number)
}

// Note is the content of a note, of this life or a former one; nil = there is none of
// that number. It is part of the table, and not to be changed.
func (v *Vault) Note(number uint32) []byte {
	return v.notes.get(number)
}

// Notes are all notes by number, also those that nobody has dropped in a former life.
func (v *Vault) Notes() iter.Seq2[uint32, []byte] {
	return func(yield func(uint32, []byte) bool) {
		for i := range v.notes.written {
			if note := v.Note(i); note != nil && !yield(i, note) {
				return
			}
		}
	}
}

// written are the numbers of the notes with memory behind them, or all where the system
// does not tell. To look at another one would give it some.
func (n *notes) written(yield func(uint32) bool) {
	const each = pageSize / noteSize
	t := n.table
	for i := 0; i < t.notes; i += each {
		data, err := unix.Seek(t.fd.Raw(), int64(t.note(uint32(i))), unix.SEEK_DATA)
		switch {
		case errors.Is(err, unix.ENXIO): // there is none from here on
			return
		case err != nil:
			data = int64(t.note(uint32(i)))
		}
		i = int(data-int64(t.notesAt)) / noteSize
		for j := i; j < min(i+each, t.notes); j++ {
			if !yield(uint32(j)) {
				return
			}
		}
	}
}

func (n *notes) add(content []byte) (uint32, bool) {
	if len(content) > MaxNote {
		return 0, false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.table
	for i := n.from; i < uint32(t.notes); i++ {
		at := t.note(i)
		if t.uint64At(at).Load() != 0 {
			continue
		}
		copy(t.mem[at+noteHead:at+noteSize], content)
		t.uint32At(at + 8).Store(uint32(len(content)))
		n.counter(i).Store(0)
		t.uint64At(at).Store(t.uint64At(atSerial).Add(1)) // last: now it is one
		n.from = i + 1
		return i, true
	}
	n.from = uint32(t.notes)
	return 0, false
}

func (n *notes) drop(i uint32) {
	if int64(i) >= int64(n.table.notes) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.table.uint64At(n.table.note(i)).Store(0)
	n.from = min(n.from, i)
}

// counter is in the last bytes of a note, which have no content.
func (n *notes) counter(i uint32) *atomic.Int64 {
	return (*atomic.Int64)(unsafe.Pointer(&n.table.mem[n.table.note(i)+noteSize-noteTail]))
}

// get trusts no length: another program may have written it.
func (n *notes) get(i uint32) []byte {
	t := n.table
	if int64(i) >= int64(t.notes) {
		return nil
	}
	at := t.note(i)
	length := t.uint32At(at + 8).Load()
	if t.uint64At(at).Load() == 0 || length > MaxNote {
		return nil
	}
	start, end := at+noteHead, at+noteHead+int(length)
	return t.mem[start:end:end]
}
