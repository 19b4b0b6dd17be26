package vault

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// peekBuffer is larger than any record: what does not fit is none.
const peekBuffer = 4 << 10

// eachRecord peeks at the messages of a queue, from the head on, and takes none out. A
// process that is killed in here leaves the socket with an offset, which the next one
// sets anew.
//
// see owns the descriptors of the letter. If it says so, it gets the same one again,
// with new ones.
func eachRecord(fd int, see func(letter) (again bool)) error {
	seek := func(offset int) error {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEEK_OFF, offset); err != nil {
			return fmt.Errorf("SO_PEEK_OFF: %w", err)
		}
		return nil
	}
	if err := seek(0); err != nil {
		return err
	}
	data := make([]byte, peekBuffer)
	for offset := 0; ; {
		l, errno := peek(fd, data)
		switch {
		case errno == unix.EAGAIN || errno == 0 && l.size == 0 && len(l.fds) == 0: // 0 is the end where nobody can send
			return seek(-1)
		case errno != 0:
			return fmt.Errorf("peek: %w", errno)
		}
		whole := l.size <= len(data)
		if see(l) {
			if err := seek(offset); err != nil {
				return err
			}
			continue
		}
		offset += l.size
		if !whole { // the kernel has gone on by what has fitted
			if err := seek(offset); err != nil {
				return err
			}
		}
	}
}
