package pidfd

import (
	"math/bits"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ptraceCapability is CAP_SYS_PTRACE in a set of capabilities.
const ptraceCapability = 1 << unix.CAP_SYS_PTRACE

// namedCapabilities is how many of a set are worth their names.
const namedCapabilities = 3

// capabilities are the names of a set, as capabilities(7) has them: "CAP_CHOWN,
// CAP_KILL", cut if there are many.
func capabilities(set uint64) string {
	var names []string
	for left := set; left != 0 && len(names) < namedCapabilities; left &= left - 1 {
		names = append(names, capabilityName(bits.TrailingZeros64(left)))
	}
	if more := bits.OnesCount64(set) - len(names); more > 0 {
		names = append(names, strconv.Itoa(more)+" more capabilities")
	}
	return strings.Join(names, ", ")
}

func capabilityName(n int) string {
	if n < len(capabilityNames) {
		return "CAP_" + capabilityNames[n]
	}
	return "capability " + strconv.Itoa(n)
}

// capabilityNames are in the order of linux/capability.h.
var capabilityNames = [...]string{
	"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID",
	"SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW",
	"IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT",
	"SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD",
	"LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG",
	"WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE",
}
