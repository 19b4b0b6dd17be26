package pidfd

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// siocUnixFile is SIOCUNIXFILE of linux/un.h: a descriptor (O_PATH) of the file to
// which a Unix socket was bound.
const siocUnixFile = unix.SIOCPROTOPRIVATE

// currentPath is where clients find a Unix socket that was bound to a path. HAProxy
// binds another one and renames the file, and getsockname(2) goes on telling the first.
// It is the bound one if the file is not to be found from here, or without
// CAP_NET_ADMIN.
func currentPath(fd int, bound string) string {
	raw, err := unix.IoctlRetInt(fd, siocUnixFile)
	if err != nil {
		return bound
	}
	file := sock.NewFD(raw)
	defer file.Close()
	path, err := os.Readlink(fmt.Sprintf("/proc/thread-self/fd/%d", raw))
	if err != nil || !sameFile(raw, path) {
		return bound
	}
	return path
}

func sameFile(fd int, path string) bool {
	var open, there unix.Stat_t
	return unix.Fstat(fd, &open) == nil && unix.Lstat(path, &there) == nil &&
		open.Dev == there.Dev && open.Ino == there.Ino
}
