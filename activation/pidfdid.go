package activation

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// pidfsMagic is the file system type of pidfds since Linux 6.9, PID_FS_MAGIC.
const pidfsMagic = 0x50494446

func thisProcess() process {
	return process{pid: os.Getpid(), pidfdID: pidfdID(os.Getpid())}
}

// pidfdID is the inode number of a process's pidfd, which no other process of
// this boot ever has. It is 0 on kernels before 6.9, where all share one.
func pidfdID(pid int) uint64 {
	raw, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0
	}
	fd := sock.NewFD(raw)
	defer fd.Close()

	var fs unix.Statfs_t
	var st unix.Stat_t
	if unix.Fstatfs(raw, &fs) != nil || fs.Type != pidfsMagic || unix.Fstat(raw, &st) != nil {
		return 0
	}
	return st.Ino
}
