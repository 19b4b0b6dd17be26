package sock

import (
	"fmt"
	"strconv"
	"strings"
)

// storePrefix begins each name. No listener is called so: their names have no "/".
const storePrefix = "socket/"

// StoreName is the name under which the socket is kept in a file descriptor store:
// "socket/3f" with its SO_COOKIE in hex, and "socket/3f.1a.2b07" for a Unix socket
// that owns a file, with the file's device and inode. No two sockets of a boot have
// the same, and it is the same for the socket's whole life.
func (l *Listener) StoreName() string {
	return storeName{cookie: l.Info.Cookie, file: l.file}.String()
}

// IsStoreName tells whether a name is one that StoreName gives.
func IsStoreName(name string) bool {
	_, ok := parseStoreName(name)
	return ok
}

// AdoptStored is [Adopt] for a socket that comes back from a store. A Unix socket
// that owned a file does so again: Close removes the path, if it still leads to
// that file.
func AdoptStored(fd *FD, name string) (*Listener, error) {
	l, err := Adopt(fd)
	if err != nil {
		return nil, err
	}
	if n, ok := parseStoreName(name); ok && n.cookie == l.Info.Cookie && n.file != nil && l.Info.Addr.HasFile() {
		l.file = &socketFile{path: l.Info.Addr.Path, dev: n.file.dev, ino: n.file.ino}
	}
	return l, nil
}

// storeName is what a StoreName says. The file is without its path, which the
// socket knows.
type storeName struct {
	cookie uint64
	file   *socketFile // nil = none
}

func (n storeName) String() string {
	s := storePrefix + strconv.FormatUint(n.cookie, 16)
	if n.file != nil {
		s += fmt.Sprintf(".%x.%x", n.file.dev, n.file.ino)
	}
	return s
}

// parseStoreName takes exactly what String gives: two names of one socket would be
// two entries of a store.
func parseStoreName(name string) (n storeName, ok bool) {
	numbers, ok := strings.CutPrefix(name, storePrefix)
	if !ok {
		return storeName{}, false
	}
	var parsed []uint64
	for field := range strings.SplitSeq(numbers, ".") {
		v, err := strconv.ParseUint(field, 16, 64)
		if err != nil {
			return storeName{}, false
		}
		parsed = append(parsed, v)
	}
	n.cookie = parsed[0]
	if len(parsed) == 3 {
		n.file = &socketFile{dev: parsed[1], ino: parsed[2]}
	}
	return n, n.String() == name
}
