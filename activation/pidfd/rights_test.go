package pidfd_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/pidfd"
)

// Two users without a name. Each has the group of the same number.
const me, other = 59001, 59002

// answer is what a child has got that asked for the sockets of another process.
type answer struct {
	Sockets int
	Reasons []pidfd.Reason
	Error   string
	Hint    string
	EPERM   bool
}

func init() {
	children["asks"] = func(args []string) error {
		pid, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		// A change of the capabilities is for one thread.
		runtime.LockOSThread()
		if err := change(args[1:]); err != nil {
			return err
		}
		for {
			waitToBeTold()
			if err := say(ask(pid)); err != nil {
				return err
			}
		}
	}
}

func ask(pid int) (a answer) {
	p, err := pidfd.Open(pid)
	if err == nil {
		var found []pidfd.Found
		found, err = p.ListeningSockets(context.Background())
		a.Sockets = len(found)
	}
	if err != nil {
		a.Error = err.Error()
		a.EPERM = errors.Is(err, os.ErrPermission)
	}
	if rights, ok := errors.AsType[*pidfd.RightsError](err); ok {
		a.Reasons, a.Hint = rights.Reasons, rights.Hint()
	}
	return a
}

// asks lets a child of that name ask.
func (c *child) asks(t *testing.T) (a answer) {
	t.Helper()
	c.tells(t, "ask")
	c.hears(t, &a)
	return a
}

// changes are what a child may have lost.
var changes = map[string]func() error{
	"without CAP_SYS_PTRACE":    dropPtrace,
	"filter pidfd_getfd EPERM":  func() error { return refuse(unix.SYS_PIDFD_GETFD, unix.EPERM) },
	"filter pidfd_getfd ENOSYS": func() error { return refuse(unix.SYS_PIDFD_GETFD, unix.ENOSYS) },
	"filter pidfd_open EPERM":   func() error { return refuse(unix.SYS_PIDFD_OPEN, unix.EPERM) },
	"protected":                 func() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) },
}

func change(names []string) error {
	for _, name := range names {
		if err := changes[name](); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func dropPtrace() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return err
	}
	sets[0].Effective &^= 1 << unix.CAP_SYS_PTRACE
	sets[0].Permitted &^= 1 << unix.CAP_SYS_PTRACE
	return unix.Capset(&header, &sets[0])
}

// refuse makes a system call fail for the rest of this process's life, as systemd's
// SystemCallFilter= and Docker do.
func refuse(call uint32, errno unix.Errno) error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, failed := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if failed != 0 {
		return failed
	}
	return nil
}

// as makes a child run with other credentials.
func as(cmd *exec.Cmd, attr syscall.SysProcAttr) *exec.Cmd {
	attr.Pdeathsig = cmd.SysProcAttr.Pdeathsig
	cmd.SysProcAttr = &attr
	return cmd
}

func user(uid, gid uint32, ambient ...uintptr) syscall.SysProcAttr {
	return syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}, AmbientCaps: ambient}
}

func needsRoot(t *testing.T, why string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can ", why)
	}
}

func TestWhoMayNotTakeSocketsIsToldWhatIsMissing(t *testing.T) {
	needsRoot(t, "be other users")
	for _, tt := range []struct {
		name   string
		target syscall.SysProcAttr
		lost   []string // of the target
		asker  syscall.SysProcAttr
		loses  []string
		want   []pidfd.Reason // beside Yama's
		text   string
		hint   string
	}{
		{
			name: "the same user", target: user(me, me), asker: user(me, me),
		},
		{
			// It may not even list /proc/PID/fd.
			name: "CAP_SYS_PTRACE and nothing else", target: user(0, 0), asker: user(me, me, unix.CAP_SYS_PTRACE),
		},
		{
			name: "another user", target: user(other, other), asker: user(me, me),
			want: []pidfd.Reason{pidfd.OtherUser},
			text: "it runs as user 59002 and this process as user 59001",
			hint: "run as root, or with CAP_SYS_PTRACE; or else run as user 59002",
		},
		{
			name: "another group", target: user(me, other), asker: user(me, me),
			want: []pidfd.Reason{pidfd.OtherUser},
			text: "it runs as group 59002 and this process as group 59001",
			hint: "; or else run as group 59002",
		},
		{
			name: "root's process", target: user(0, 0), asker: user(me, me),
			want: []pidfd.Reason{pidfd.OtherUser},
			text: "it runs as user root and this process as user 59001",
			hint: "run as root, or with CAP_SYS_PTRACE",
		},
		{
			name: "a protected process", target: user(me, me), lost: []string{"protected"}, asker: user(me, me),
			want: []pidfd.Reason{pidfd.NotDumpable},
			text: "the kernel protects it, as it does after a change of user (PR_SET_DUMPABLE)",
			hint: "run as root, or with CAP_SYS_PTRACE",
		},
		{
			name: "a process that may bind port 80", target: user(me, me, unix.CAP_NET_BIND_SERVICE), asker: user(me, me),
			want: []pidfd.Reason{pidfd.MoreCapabilities},
			text: "it has what this process has not: CAP_NET_BIND_SERVICE",
			hint: "; or else run with CAP_NET_BIND_SERVICE",
		},
		{
			name: "root in a container", target: user(0, 0), asker: user(0, 0), loses: []string{"without CAP_SYS_PTRACE"},
			want: []pidfd.Reason{pidfd.MoreCapabilities},
			text: "it has what this process has not: CAP_SYS_PTRACE",
			hint: "root has no CAP_SYS_PTRACE here: docker run --cap-add SYS_PTRACE, or CapabilityBoundingSet= of the unit",
		},
		{
			name: "a user name space of its own", target: user(0, 0), asker: syscall.SysProcAttr{
				Cloneflags:  unix.CLONE_NEWUSER,
				UidMappings: []syscall.SysProcIDMap{{HostID: 0, Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{HostID: 0, Size: 1}},
			},
			want: []pidfd.Reason{pidfd.OtherNamespace},
			text: "it is in a user name space where this process has no rights",
			hint: "run as root on the host, or in the container where that process is",
		},
		{
			name: "a filter that refuses", target: user(0, 0), asker: user(0, 0), loses: []string{"filter pidfd_getfd EPERM"},
			want: []pidfd.Reason{pidfd.CallRefused},
			text: "a system call filter does not let this process use pidfd_getfd",
			hint: "let it: SystemCallFilter=pidfd_getfd in a unit, docker run --cap-add SYS_PTRACE in a container",
		},
		{
			name: "a filter that hides", target: user(0, 0), asker: user(0, 0), loses: []string{"filter pidfd_getfd ENOSYS"},
			want: []pidfd.Reason{pidfd.CallMissing},
			text: "the kernel has no pidfd_getfd, or a system call filter hides it",
			hint: "pidfd_getfd needs Linux 5.6, and in a container a seccomp profile that knows it",
		},
		{
			name: "a filter on pidfd_open", target: user(0, 0), asker: user(0, 0), loses: []string{"filter pidfd_open EPERM"},
			want: []pidfd.Reason{pidfd.CallRefused},
			text: "a system call filter does not let this process use pidfd_open",
			hint: "let it: SystemCallFilter=pidfd_open in a unit, docker run --cap-add SYS_PTRACE in a container",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if scope := yamaScope(t); scope > 0 {
				t.Skip("kernel.yama.ptrace_scope is more than 0: see the test of that")
			}
			target := start(t, as(command("listens", tt.lost...), tt.target))
			var at netip.AddrPort
			target.hears(t, &at)
			pid := strconv.Itoa(target.Process.Pid)

			asker := start(t, as(command("asks", append([]string{pid}, tt.loses...)...), tt.asker))
			got := asker.asks(t)
			assert.Equal(t, tt.want, got.Reasons, "%s", got.Error)
			if tt.want == nil {
				assert.Equal(t, answer{Sockets: 1}, got)
				return
			}
			assert.Contains(t, got.Error, "take descriptors of process "+pid)
			assert.Contains(t, got.Error, ": "+tt.text)
			assert.True(t, strings.HasSuffix(got.Hint, tt.hint), "%s", got.Hint)
			assert.Equal(t, tt.want[0] != pidfd.CallMissing, got.EPERM)
			t.Logf("\nerror: %s\nhint: %s", got.Error, got.Hint)
		})
	}
}
