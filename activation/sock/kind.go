package sock

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// NotSocketError says what a descriptor is that should have been a socket.
type NotSocketError struct {
	Kind string // for people: "a pipe", "memfd x", "file /etc/passwd"
}

func (e *NotSocketError) Error() string {
	return "not a socket but " + e.Kind
}

// kind names an open descriptor that is not a socket. The link in /proc has the
// best name; without /proc the file type is left.
func kind(fd int) string {
	link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		link = ""
	}
	if memfd, ok := strings.CutPrefix(link, "/memfd:"); ok {
		return "memfd " + strings.TrimSuffix(memfd, " (deleted)")
	}
	if anon, ok := strings.CutPrefix(link, "anon_inode:"); ok {
		return "an " + strings.Trim(anon, "[]") + " descriptor"
	}
	if strings.HasPrefix(link, "pipe:") {
		return "a pipe"
	}

	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "unknown"
	}
	what := "something"
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		what = "file"
	case unix.S_IFDIR:
		what = "directory"
	case unix.S_IFIFO:
		what = "FIFO"
	case unix.S_IFCHR, unix.S_IFBLK:
		what = "device"
	}
	return strings.TrimSpace(what + " " + link)
}
