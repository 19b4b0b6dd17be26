package machine

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"

	"github.com/holdfast-proxy/holdfast/vmtest/cpio"
	"github.com/holdfast-proxy/holdfast/vmtest/wire"
)

const qemu = "qemu-system-x86_64"

// qemuCommand boots the image's kernel with a small initial RAM disk, whose init
// mounts the disk. That was as fast as any way tried: an emulated Debian 12 is
// up in 4 s and a Debian 13 in 6 s, of which the kernel takes 1.5 s.
func qemuCommand(ctx context.Context, o Options, dir runDir) (cmd *exec.Cmd, how string, err error) {
	if err := installed(qemu); err != nil {
		return nil, "", err
	}
	if err := os.Mkdir(dir.share(), 0o755); err != nil {
		return nil, "", err
	}
	if err := writeInitrd(dir.initrd(), o); err != nil {
		return nil, "", err
	}
	accel, reason, err := accelerator(ctx, o, dir.initrd())
	if err != nil {
		return nil, "", err
	}
	args := append(qemuArgs(o, dir.initrd(), accel, ""),
		// Writes go to a file without a name that is gone with the process.
		"-drive", "file="+o.Image.Disk()+",format=raw,if=virtio,snapshot=on,cache=unsafe",
		"-device", "virtio-serial-pci",
		"-chardev", "socket,id=agent,path="+dir.agentSocket()+",server=on,wait=off",
		"-device", "virtserialport,chardev=agent,name="+wire.PortName,
	)
	return exec.Command(qemu, args...), "qemu with " + reason, nil
}

// qemuArgs are the arguments of every start, with the console on stdout. Without
// no_timer_check a kernel that is emulated on a busy host finds, now and then,
// that its timer ticks too seldom, and panics: "IO-APIC + timer doesn't work".
// Emulation copies byte by byte where the processor says that it is good at that;
// without erms, guests copy in words, and take a tenth less of the host's time.
func qemuArgs(o Options, initrd, accel, flag string) []string {
	return []string{
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-accel", accel, "-cpu", "max,erms=off", "-smp", "2", "-m", "1024", "-machine", "q35",
		"-serial", "stdio",
		"-kernel", o.Image.Kernel(), "-initrd", initrd,
		"-append", "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check " + flag,
	}
}

// writeInitrd puts the image's modules, the guest program as init and the payload
// into one file.
func writeInitrd(file string, o Options) error {
	files := []cpio.File{{Name: "init", Mode: 0o755, Content: o.Payload[path.Base(wire.Program)]}}
	for name, content := range o.Payload {
		files = append(files, cpio.File{Name: path.Join("payload", name), Mode: 0o755, Content: content})
	}
	modules, err := os.Open(o.Image.Modules())
	if err != nil {
		return err
	}
	defer modules.Close()
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, modules)
	return errors.Join(err, cpio.Write(out, files), out.Close())
}
