package sock

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Hint says what a person can do about an error of [Listen]; "" when there is
// nothing known to say. Callers print it as a line of its own, "hint: …".
func Hint(err error) string {
	var e *ListenError
	if !errors.As(err, &e) {
		return ""
	}
	if e.Addr.isUnix() {
		return unixHint(e)
	}
	return ipHint(e)
}

func ipHint(e *ListenError) string {
	port := e.Addr.AddrPort.Port()
	switch {
	case errors.Is(e, unix.EADDRINUSE):
		return fmt.Sprintf("another program listens there: ss -l%cnp sport = :%d", e.Addr.Network[0], port)
	case errors.Is(e, unix.EADDRNOTAVAIL):
		return "no interface of this host has that address: ip address"
	case errors.Is(e, unix.EACCES) && port < 1024:
		return "ports below 1024 need CAP_NET_BIND_SERVICE or a socket unit"
	case errors.Is(e, unix.EACCES), errors.Is(e, unix.EPERM):
		return "a security policy forbids it: SocketBindDeny= of the unit, SELinux, AppArmor"
	case errors.Is(e, unix.EAFNOSUPPORT):
		return "the address family is switched off: in the kernel, or by RestrictAddressFamilies= of the unit"
	case errors.Is(e, unix.ENODEV):
		return "there is no such interface: ip link"
	}
	return descriptorHint(e)
}

func unixHint(e *ListenError) string {
	dir := filepath.Dir(e.Addr.Path)
	switch {
	case errors.Is(e, ErrNotSocketFile):
		return "remove it or choose another path"
	case errors.Is(e, unix.EADDRINUSE):
		return fmt.Sprintf("another program listens there: ss -lxp src %s", e.Addr.Path)
	case errors.Is(e, unix.ENOENT):
		return fmt.Sprintf("there is no directory %s; in a unit RuntimeDirectory= makes one", dir)
	case errors.Is(e, unix.EACCES), errors.Is(e, unix.EPERM):
		return fmt.Sprintf("the user of this process must be able to read and write %s", dir)
	case errors.Is(e, unix.EROFS):
		return fmt.Sprintf("%s is read-only; in a unit ReadWritePaths= or RuntimeDirectory= opens one", dir)
	case errors.Is(e, unix.ENAMETOOLONG):
		return fmt.Sprintf("a Unix socket path has at most %d bytes", maxPath)
	case errors.Is(e, unix.EWOULDBLOCK):
		return fmt.Sprintf("another program holds a lock on %s", dir)
	}
	return descriptorHint(e)
}

func descriptorHint(err error) string {
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		return "no descriptors left: raise LimitNOFILE= or ulimit -n"
	}
	return ""
}
