package fdstore

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// sealed is what nobody can do to a memfd any more, nor allow again.
const sealed = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE

// Memfd puts content into a file in memory that never changes again, as state to
// keep beside descriptors: memfd_create(2). The name is for people who look at
// /proc, and at most 249 bytes long.
func Memfd(name string, content []byte) (*sock.FD, error) {
	fd, err := newMemfd(name)
	if err != nil {
		return nil, fmt.Errorf("make memfd %s: %w", name, err)
	}
	if err := fillMemfd(fd, content); err != nil {
		return nil, fmt.Errorf("make memfd %s: %w", name, errors.Join(err, fd.Close()))
	}
	return fd, nil
}

func newMemfd(name string) (*sock.FD, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	raw, err := unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		raw, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return nil, err
	}
	return sock.NewFD(raw), nil
}

func fillMemfd(fd *sock.FD, content []byte) error {
	for offset := 0; offset < len(content); {
		n, err := unix.Pwrite(fd.Raw(), content[offset:], int64(offset))
		if err != nil {
			return err
		}
		offset += n
	}
	_, err := unix.FcntlInt(uintptr(fd.Raw()), unix.F_ADD_SEALS, sealed)
	return err
}

// ReadMemfd is the content of what Memfd has made, if it is no longer than most
// bytes. It refuses any other file: what comes back from a store may be anything,
// and another process may change what is not sealed while it is read.
//
// It leaves the offset alone, which is shared with everybody who has the file.
func ReadMemfd(fd int, most int64) ([]byte, error) {
	content, err := readMemfd(fd, most)
	if err != nil {
		return nil, fmt.Errorf("read kept descriptor %d: %w", fd, err)
	}
	return content, nil
}

func readMemfd(fd int, most int64) ([]byte, error) {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || seals&sealed != sealed {
		return nil, errors.New("not a sealed memfd")
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Size > most {
		return nil, fmt.Errorf("it has %d bytes, more than the %d expected at most", st.Size, most)
	}
	content := make([]byte, st.Size)
	for n := 0; n < len(content); {
		read, err := unix.Pread(fd, content[n:], int64(n))
		if err != nil {
			return nil, err
		}
		if read == 0 { // a seal was not what it says
			return nil, io.ErrUnexpectedEOF
		}
		n += read
	}
	return content, nil
}
