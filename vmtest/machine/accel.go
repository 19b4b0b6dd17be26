package machine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/vmtest/wire"
)

const (
	kvm = "kvm"
	tcg = "tcg,thread=multi"
)

// probePatience is ten times what a guest under KVM takes to its init.
const probePatience = 15 * time.Second

// verdict is what is known of KVM on this host.
type verdict struct {
	Usable bool
	Reason string
	passes bool // it may be another one next time, as on a host that is busy now
}

// accelerator chooses between KVM and emulation, and says why. /dev/kvm can be
// there, open, and even create a virtual machine, and yet not run a guest, as
// where virtual machines are nested without support for it: QEMU ends with an
// internal error, or hangs. So one is booted once, and the result is kept for as
// long as kernel, processor and QEMU are the same. Whether this user may open it
// is not kept, nor that it took too long.
func accelerator(ctx context.Context, o Options, initrd string) (accel, reason string, err error) {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return tcg, "emulation, since " + err.Error(), nil
	}
	_ = f.Close()
	v, err := remembered(filepath.Join(o.Cache, "kvm-"+hostKey()+".json"), func() (verdict, error) {
		return probeKVM(ctx, o, initrd, probePatience)
	})
	if err != nil {
		return "", "", err
	}
	if v.Usable {
		return kvm, "KVM", nil
	}
	return tcg, "emulation, since " + v.Reason, nil
}

// finding lets machines that start side by side find out once.
var finding sync.Mutex

// remembered reads a verdict from a file, or reaches it and writes it there if
// it may and the verdict lasts. Without the file, the next machine finds out again.
func remembered(file string, find func() (verdict, error)) (verdict, error) {
	finding.Lock()
	defer finding.Unlock()
	var v verdict
	if content, err := os.ReadFile(file); err == nil && json.Unmarshal(content, &v) == nil {
		return v, nil
	}
	v, err := find()
	if err != nil || v.passes {
		return v, err
	}
	content, err := json.Marshal(v)
	if err == nil {
		_ = os.WriteFile(file, content, 0o644)
	}
	return v, err
}

// probeKVM boots a guest as far as its init. An error says nothing about KVM.
func probeKVM(ctx context.Context, o Options, initrd string, patience time.Duration) (verdict, error) {
	fmt.Fprintln(o.Log, "vmtest: trying to boot a guest with KVM")
	probe, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(probe, qemu, qemuArgs(o, initrd, kvm, wire.ProbeFlag)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	switch first, _, _ := strings.Cut(string(out), "\n"); {
	case strings.Contains(string(out), wire.Alive):
		return verdict{Usable: true}, nil
	case ctx.Err() != nil:
		return verdict{}, ctx.Err()
	case probe.Err() != nil:
		return verdict{Reason: fmt.Sprintf("a guest under KVM did not come up in %v", patience), passes: true}, nil
	default:
		return verdict{Reason: fmt.Sprintf("a guest under KVM did not come up: %v: %s", err, first)}, nil
	}
}

// hostKey identifies what decides whether KVM works.
func hostKey() string {
	var name unix.Utsname
	_ = unix.Uname(&name) // fails on bad pointers only
	h := sha256.New()
	h.Write(name.Release[:])
	h.Write(name.Version[:])
	cpu, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(cpu)) {
		if strings.HasPrefix(line, "model name") || strings.HasPrefix(line, "flags") {
			fmt.Fprint(h, line)
		}
	}
	version, _ := exec.Command(qemu, "--version").Output()
	h.Write(version)
	return hex.EncodeToString(h.Sum(nil))[:12]
}
