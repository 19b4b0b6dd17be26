package pidfd

import (
	"fmt"
	"math/bits"
	"os/user"
	"strconv"
)

// Reason is one thing that keeps this process from taking descriptors.
type Reason int

// The values of Reason, in the order in which the kernel asks.
const (
	CallMissing      Reason = iota + 1 // no such system call: an old kernel, or a system call filter
	CallRefused                        // a system call filter is against it
	OtherNamespace                     // the process is in a user name space where this one has no rights
	OtherUser                          // another user or group
	NotDumpable                        // it has changed its user, or asked for protection (PR_SET_DUMPABLE)
	MoreCapabilities                   // it has capabilities that this process has not
	YamaRelation                       // kernel.yama.ptrace_scope=1: not an ancestor, and not allowed by it
	YamaCapability                     // kernel.yama.ptrace_scope=2
	YamaNever                          // kernel.yama.ptrace_scope=3
	SecurityModule                     // nothing of the above: SELinux, AppArmor, Landlock
	HiddenFromProc                     // not to be seen: /proc does not show the process
)

// text is the reason in a sentence of its own.
func (r Reason) text(f facts) string {
	switch r {
	case CallMissing:
		return "the kernel has no " + f.call + ", or a system call filter hides it"
	case CallRefused:
		return "a system call filter does not let this process use " + f.call
	case OtherNamespace:
		return "it is in a user name space where this process has no rights"
	case OtherUser:
		return otherUser(f.target, f.own)
	case NotDumpable:
		return "the kernel protects it, as it does after a change of user (PR_SET_DUMPABLE)"
	case MoreCapabilities:
		return "it has what this process has not: " + capabilities(f.missing())
	case YamaRelation:
		return "kernel.yama.ptrace_scope=1 lets only its ancestors do so, and whom it allows"
	case YamaCapability:
		return "kernel.yama.ptrace_scope=2 lets nobody without CAP_SYS_PTRACE do so"
	case YamaNever:
		return "kernel.yama.ptrace_scope=3 lets nobody do so"
	case SecurityModule:
		return "a security module is against it"
	case HiddenFromProc:
		return "the kernel is against it, and /proc does not show why"
	}
	return "unknown reason " + strconv.Itoa(int(r))
}

// onlyWay is what to do where CAP_SYS_PTRACE does not help; "" where it does.
func (r Reason) onlyWay(f facts) string {
	switch r {
	case CallMissing:
		return f.call + " needs Linux 5.6, and in a container a seccomp profile that knows it"
	case CallRefused:
		return "let it: SystemCallFilter=" + f.call + " in a unit, docker run --cap-add SYS_PTRACE in a container"
	case OtherNamespace:
		return "run as root on the host, or in the container where that process is"
	case YamaNever:
		return "no process can lower ptrace_scope from 3: set it lower in /etc/sysctl.d and boot again"
	case SecurityModule:
		return "the log of the kernel says more, if it is SELinux or AppArmor: journalctl -k --grep ptrace"
	default:
		return ""
	}
}

// otherWay is what to do instead of having CAP_SYS_PTRACE; "" when nothing else helps.
func (r Reason) otherWay(f facts) string {
	switch r {
	case OtherUser:
		uid, uniform := f.target.uids.same()
		gid, uniformGroup := f.target.gids.same()
		switch {
		case !uniform || !uniformGroup || uid == 0:
			return ""
		case uid == f.own.uids[0]:
			return "run as group " + groupName(gid)
		}
		return "run as user " + userName(uid)
	case MoreCapabilities:
		if more := f.missing(); bits.OnesCount64(more) <= namedCapabilities && more&ptraceCapability == 0 {
			return "run with " + capabilities(more)
		}
		return ""
	case YamaRelation, YamaCapability:
		return "sysctl kernel.yama.ptrace_scope=0"
	default:
		return ""
	}
}

func otherUser(target, own status) string {
	uid, uniform := target.uids.same()
	gid, uniformGroup := target.gids.same()
	switch {
	case !uniform || !uniformGroup:
		return "it runs with several users or groups, as a set-user-ID program does"
	case uid == own.uids[0]:
		return fmt.Sprintf("it runs as group %s and this process as group %s", groupName(gid), groupName(own.gids[0]))
	}
	return fmt.Sprintf("it runs as user %s and this process as user %s", userName(uid), userName(own.uids[0]))
}

func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return strconv.Itoa(uid)
}

func groupName(gid int) string {
	if g, err := user.LookupGroupId(strconv.Itoa(gid)); err == nil {
		return g.Name
	}
	return strconv.Itoa(gid)
}
