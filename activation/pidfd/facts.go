package pidfd

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// facts are what the kernel's answer depends on: __ptrace_may_access in
// kernel/ptrace.c, cap_ptrace_access_check and yama_ptrace_access_check.
type facts struct {
	call   string // the system call that was refused
	filter Reason // that it fails of this very process, too: CallMissing or CallRefused; else 0
	scope  int    // kernel.yama.ptrace_scope, 0 without Yama

	own      status
	initial  bool // this process is in the first user name space of the host
	target   status
	visible  bool // target is known
	dumpable bool
	sameNS   bool // the other process is known to be in the same user name space
	otherNS  bool // it is known to be in another one
}

// reasons are all that is in the way, so that a person does not meet one after the
// other. There is at least one.
func (f facts) reasons() []Reason {
	if f.filter != 0 {
		return []Reason{f.filter}
	}
	capable := f.own.effective&ptraceCapability != 0
	var all []Reason
	add := func(r Reason, holds bool) {
		if holds {
			all = append(all, r)
		}
	}
	// In the first name space the capability counts for every process.
	add(OtherNamespace, !f.initial && (f.otherNS || capable && !f.sameNS))
	if !capable {
		add(OtherUser, f.visible && !f.own.sameUser(f.target))
		add(NotDumpable, f.visible && !f.dumpable)
		add(MoreCapabilities, f.visible && f.missing() != 0)
		add(YamaRelation, f.scope == 1)
		add(YamaCapability, f.scope == 2)
	}
	add(YamaNever, f.scope == 3)
	add(HiddenFromProc, len(all) == 0 && !f.visible)
	add(SecurityModule, len(all) == 0)
	return all
}

// sameUser is the kernel's condition: the real user and group of the one who asks are
// all that the other one has.
func (s status) sameUser(target status) bool {
	uid, gid := s.uids[0], s.gids[0]
	return target.uids == ids{uid, uid, uid} && target.gids == ids{gid, gid, gid}
}

// missing are the capabilities that the other process has and this one has not. That
// root has more than a user goes without saying: it is about the user.
func (f facts) missing() uint64 {
	if f.target.uids[1] == 0 && f.own.uids[0] != 0 {
		return 0
	}
	return f.target.permitted &^ f.own.permitted
}

// gatherFacts looks at both processes. What it cannot see counts as not in the way.
func (p *Process) gatherFacts(refusal error) facts {
	f := facts{call: "pidfd_getfd", filter: refusedCall(refusal), scope: yamaScope(), initial: inInitialNS()}
	if f.filter == CallRefused { // or was it about the other process?
		f.filter = refusedOwn()
	}
	own, _ := os.ReadFile("/proc/thread-self/status")
	f.own, _ = parseStatus(own)
	f.own.uids[0], f.own.gids[0] = os.Getuid(), os.Getgid() // also without /proc

	dir, err := p.procDir()
	if err != nil {
		return f
	}
	defer dir.close()
	target, err := dir.read("status")
	if err != nil {
		return f
	}
	f.target, f.visible = parseStatus(target)
	f.dumpable = dir.dumpable(f.target)
	ownNS, err := os.Readlink("/proc/thread-self/ns/user")
	if targetNS, targetErr := dir.link("ns/user"); err == nil && targetErr == nil {
		f.sameNS, f.otherNS = ownNS == targetNS, ownNS != targetNS
	}
	return f
}

// refusedCall tells what a refusal of a system call means if it has nothing to do
// with the other process.
func refusedCall(err error) Reason {
	switch {
	case errors.Is(err, unix.ENOSYS):
		return CallMissing
	case errors.Is(err, unix.EPERM):
		return CallRefused
	}
	return 0
}

// refusedOwn asks for a descriptor of this process, to which the kernel itself has
// no objection.
func refusedOwn() Reason {
	raw, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return refusedCall(err)
	}
	fd := sock.NewFD(raw)
	defer fd.Close()
	_, err = unix.PidfdGetfd(raw, noDescriptor, 0)
	return refusedCall(err)
}

// yamaScope is kernel.yama.ptrace_scope; 0, which is no restriction, without Yama.
func yamaScope() int {
	text, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if err != nil {
		return 0
	}
	scope, _ := strconv.Atoi(string(bytes.TrimSpace(text)))
	return scope
}

// inInitialNS tells whether this process is in the first user name space of the host,
// the only one that has all users (user_namespaces(7)).
func inInitialNS() bool {
	text, err := os.ReadFile("/proc/thread-self/uid_map")
	return err != nil || slices.Equal(strings.Fields(string(text)), []string{"0", "0", "4294967295"})
}

// dumpable tells whether a process may be dumped. If not, its files in /proc are
// root's (task_dump_owner in fs/proc/base.c). Of root's own process that says nothing.
func (d *procDir) dumpable(s status) bool {
	var st unix.Stat_t
	err := unix.Fstatat(d.fd.Raw(), "fd", &st, 0)
	return err != nil || int(st.Uid) == s.uids[1]
}
