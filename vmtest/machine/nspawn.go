package machine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/vmtest/wire"
)

const nspawn = "systemd-nspawn"

// nspawnScript runs in mount and process namespaces of its own, so nothing of it
// has to be undone. A killed systemd-nspawn leaves its container behind, but the
// end of the first process of a namespace ends all others in it.
//
// What systemd-nspawn notes of a machine in /run, and leaves there, is in memory of its own.
// The system gets a layer of memory over the image's files, and a control group of
// its own to be master of; where this host mixes both versions of control groups,
// it gets to see the second.
//
// Arguments: image root, overlay folder, root folder, name of the control group,
// "mixed" or "unified", then the command.
const nspawnScript = `set -e
lower=$1 over=$2 root=$3 group=$4 version=$5
shift 5
mount -t proc proc /proc
mkdir -p /run/systemd/nspawn
mount -t tmpfs tmpfs /run/systemd/nspawn
mount -t tmpfs tmpfs "$over"
mkdir "$over/upper" "$over/work"
mount -t overlay -o "lowerdir=$lower,upperdir=$over/upper,workdir=$over/work" overlay "$root"
if [ "$version" = mixed ]; then mount -t cgroup2 cgroup2 /sys/fs/cgroup; fi
mkdir "/sys/fs/cgroup/$group"
echo 0 >"/sys/fs/cgroup/$group/cgroup.procs"
exec "$@"`

func nspawnCommand(o Options, dir runDir) (cmd *exec.Cmd, how string, err error) {
	if os.Geteuid() != 0 {
		return nil, "", fmt.Errorf("%s needs root; the driver %s does not", nspawn, QEMU)
	}
	if err := installed(nspawn); err != nil {
		return nil, "", err
	}
	for _, d := range []string{dir.share(), dir.overlay(), dir.root()} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return nil, "", err
		}
	}
	for name, content := range o.Payload {
		if err := os.WriteFile(filepath.Join(dir.share(), name), content, 0o755); err != nil {
			return nil, "", err
		}
	}
	version := "mixed"
	var fs unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &fs); err == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC {
		version = "unified"
	}
	cmd = exec.Command("sh", "-c", nspawnScript, "sh",
		o.Image.Root(), dir.overlay(), dir.root(), dir.Group(), version,
		nspawn, "--quiet", "--boot", "--directory="+dir.root(), "--machine="+dir.Group(),
		"--register=no", "--keep-unit", "--private-network", "--link-journal=no", "--console=read-only",
		"--bind="+dir.share()+":"+wire.Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Unshareflags: unix.CLONE_NEWNS}
	return cmd, nspawn + " on the kernel of this host", nil
}
