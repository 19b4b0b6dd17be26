package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/vmtest/wire"
)

// newRoot is where the real root is mounted before it becomes /.
const newRoot = "/newroot"

// giveWay boots from the initial RAM disk into the systemd of the root disk. If
// it cannot, the machine is switched off: the host sees that at once, and the
// reason on the console.
func giveWay() {
	err := boot()
	fmt.Println("vmtest: cannot boot:", err)
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func boot() error {
	if err := mountAll([]mount{
		{"devtmpfs", "/dev", "devtmpfs", 0, ""},
		{"proc", "/proc", "proc", 0, ""},
	}); err != nil {
		return err
	}
	if isProbe() {
		fmt.Println(wire.Alive)
		return unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	}
	if err := loadModules("/modules"); err != nil {
		return err
	}
	if err := awaitFile("/dev/vda", 10*time.Second); err != nil {
		return err
	}
	// The disk is a throw-away copy, so barriers would protect nothing.
	if err := mountAll([]mount{
		{"/dev/vda", newRoot, "ext4", unix.MS_NOATIME, "nobarrier"},
		{"tmpfs", newRoot + "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=0755"},
	}); err != nil {
		return err
	}
	if err := copyPayload("/payload", newRoot+wire.Dir); err != nil {
		return err
	}
	return switchRoot()
}

type mount struct {
	source, target, fs string
	flags              uintptr
	data               string
}

func mountAll(mounts []mount) error {
	for _, m := range mounts {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.source, m.target, m.fs, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s on %s: %w", m.source, m.target, err)
		}
	}
	return nil
}

func isProbe() bool {
	cmdline, err := os.ReadFile("/proc/cmdline")
	return err == nil && strings.Contains(string(cmdline), wire.ProbeFlag)
}

// loadModules loads the kernel modules in dir. Their file names are in the order
// in which they depend on each other.
func loadModules(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		module, err := os.Open(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(module.Fd()), "", 0)
		_ = module.Close()
		if err != nil {
			return fmt.Errorf("load %s: %w", f.Name(), err)
		}
	}
	return nil
}

func awaitFile(path string, patience time.Duration) error {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return nil
		} else if time.Now().After(end) {
			return err
		}
	}
}

// copyPayload brings what the host added to the RAM disk into the new root.
func copyPayload(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	files, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := copyFile(filepath.Join(from, f.Name()), filepath.Join(to, f.Name())); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}

// switchRoot makes newRoot the root and runs its init. What systemd finds mounted
// on /run it leaves as it is. The RAM disk itself cannot be unmounted, so its
// files are removed to free their memory.
func switchRoot() error {
	for _, dir := range []string{"/dev", "/proc"} {
		if err := unix.Mount(dir, newRoot+dir, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s: %w", dir, err)
		}
	}
	for _, path := range []string{"/payload", "/modules", "/init"} {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	if err := unix.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return fmt.Errorf("exec init: %w", unix.Exec("/sbin/init", []string{"/sbin/init"}, []string{"TERM=dumb"}))
}
