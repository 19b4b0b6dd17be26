package pidfd

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

const (
	me, other = 59001, 59002 // no names in /etc/passwd
	bindCap   = 1 << unix.CAP_NET_BIND_SERVICE
	chownCap  = 1 << unix.CAP_CHOWN
)

func person(uid int) status {
	return status{uids: ids{uid, uid, uid}, gids: ids{uid, uid, uid}}
}

func with(s status, capabilities uint64) status {
	s.permitted, s.effective = capabilities, capabilities
	return s
}

// What a kernel with Yama, a security module or an odd /proc makes of it cannot be
// provoked everywhere, so the facts are made up here.
func TestReasons(t *testing.T) {
	sameUser := facts{call: "pidfd_getfd", initial: true, visible: true, dumpable: true, own: person(me), target: person(me)}
	for _, tt := range []struct {
		name string
		set  func(f *facts)
		want []Reason
		text string
		hint string
	}{
		{
			"Yama's scope 1", func(f *facts) { f.scope = 1 },
			[]Reason{YamaRelation},
			"kernel.yama.ptrace_scope=1 lets only its ancestors do so, and whom it allows",
			"run as root, or with CAP_SYS_PTRACE; or else sysctl kernel.yama.ptrace_scope=0",
		},
		{
			"Yama's scope 2", func(f *facts) { f.scope = 2 },
			[]Reason{YamaCapability},
			"kernel.yama.ptrace_scope=2 lets nobody without CAP_SYS_PTRACE do so",
			"run as root, or with CAP_SYS_PTRACE; or else sysctl kernel.yama.ptrace_scope=0",
		},
		{
			"Yama's scope 3, which the capability does not help against", func(f *facts) {
				f.scope, f.own = 3, with(person(0), ptraceCapability)
			},
			[]Reason{YamaNever},
			"kernel.yama.ptrace_scope=3 lets nobody do so",
			"no process can lower ptrace_scope from 3: set it lower in /etc/sysctl.d and boot again",
		},
		{
			"all at once", func(f *facts) { f.scope, f.target = 1, with(person(other), bindCap) },
			[]Reason{OtherUser, MoreCapabilities, YamaRelation},
			"it runs as user 59002 and this process as user 59001; " +
				"it has what this process has not: CAP_NET_BIND_SERVICE; " +
				"kernel.yama.ptrace_scope=1 lets only its ancestors do so, and whom it allows",
			"run as root, or with CAP_SYS_PTRACE; " +
				"or else run as user 59002, and run with CAP_NET_BIND_SERVICE, and sysctl kernel.yama.ptrace_scope=0",
		},
		{
			"protected, which only the capability helps against", func(f *facts) { f.scope, f.dumpable = 1, false },
			[]Reason{NotDumpable, YamaRelation},
			"the kernel protects it, as it does after a change of user (PR_SET_DUMPABLE); " +
				"kernel.yama.ptrace_scope=1 lets only its ancestors do so, and whom it allows",
			"run as root, or with CAP_SYS_PTRACE",
		},
		{
			"a set-user-ID program", func(f *facts) { f.target.uids = ids{me, 0, 0} },
			[]Reason{OtherUser},
			"it runs with several users or groups, as a set-user-ID program does",
			"run as root, or with CAP_SYS_PTRACE",
		},
		{
			"another group", func(f *facts) { f.target.gids = ids{other, other, other} },
			[]Reason{OtherUser},
			"it runs as group 59002 and this process as group 59001",
			"run as root, or with CAP_SYS_PTRACE; or else run as group 59002",
		},
		{
			"only the permitted set counts", func(f *facts) { f.target.effective = bindCap },
			[]Reason{SecurityModule},
			"a security module is against it",
			"the log of the kernel says more, if it is SELinux or AppArmor: journalctl -k --grep ptrace",
		},
		{
			"many capabilities", func(f *facts) { f.target = with(f.target, 0xff|1<<63) },
			[]Reason{MoreCapabilities},
			"it has what this process has not: CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, 6 more capabilities",
			"run as root, or with CAP_SYS_PTRACE",
		},
		{
			"some capabilities of many", func(f *facts) {
				f.own, f.target = with(f.own, chownCap), with(f.target, chownCap|bindCap)
			},
			[]Reason{MoreCapabilities},
			"it has what this process has not: CAP_NET_BIND_SERVICE",
			"run as root, or with CAP_SYS_PTRACE; or else run with CAP_NET_BIND_SERVICE",
		},
		{
			"a container that sees nothing of the host", func(f *facts) {
				f.initial, f.visible, f.own = false, false, with(person(0), ptraceCapability)
			},
			[]Reason{OtherNamespace},
			"it is in a user name space where this process has no rights",
			"run as root on the host, or in the container where that process is",
		},
		{
			"the same container", func(f *facts) {
				f.initial, f.sameNS, f.own = false, true, with(person(0), ptraceCapability)
			},
			[]Reason{SecurityModule},
			"a security module is against it",
			"the log of the kernel says more, if it is SELinux or AppArmor: journalctl -k --grep ptrace",
		},
		{
			"root on the host, a container's process", func(f *facts) { f.otherNS, f.own = true, with(person(0), ptraceCapability) },
			[]Reason{SecurityModule},
			"a security module is against it",
			"the log of the kernel says more, if it is SELinux or AppArmor: journalctl -k --grep ptrace",
		},
		{
			"hidden", func(f *facts) { f.visible = false },
			[]Reason{HiddenFromProc},
			"the kernel is against it, and /proc does not show why",
			"run as root, or with CAP_SYS_PTRACE",
		},
		{
			"hidden, but Yama is seen", func(f *facts) { f.visible, f.scope = false, 1 },
			[]Reason{YamaRelation},
			"kernel.yama.ptrace_scope=1 lets only its ancestors do so, and whom it allows",
			"run as root, or with CAP_SYS_PTRACE; or else sysctl kernel.yama.ptrace_scope=0",
		},
		{
			"a filter, whatever else there is", func(f *facts) { f.filter, f.scope, f.dumpable = CallRefused, 3, false },
			[]Reason{CallRefused},
			"a system call filter does not let this process use pidfd_getfd",
			"let it: SystemCallFilter=pidfd_getfd in a unit, docker run --cap-add SYS_PTRACE in a container",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := sameUser
			tt.set(&f)
			e := &RightsError{Process: "process 12 (nginx)", Reasons: f.reasons(), Err: unix.EPERM, facts: f}
			assert.Equal(t, tt.want, e.Reasons)
			assert.EqualError(t, e, "take descriptors of process 12 (nginx): "+tt.text)
			assert.Equal(t, tt.hint, e.Hint())
			assert.ErrorIs(t, e, unix.EPERM)
		})
	}
}

func TestCapabilityNames(t *testing.T) {
	for set, want := range map[uint64]string{
		0:                           "",
		1 << unix.CAP_LAST_CAP:      "CAP_CHECKPOINT_RESTORE",
		ptraceCapability | bindCap:  "CAP_NET_BIND_SERVICE, CAP_SYS_PTRACE",
		1<<63 | 1<<unix.CAP_NET_RAW: "CAP_NET_RAW, capability 63",
	} {
		assert.Equal(t, want, capabilities(set))
	}
}
