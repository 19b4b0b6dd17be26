package activation

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxListenFDs is how many descriptors are believed in. LISTEN_FDNAMES is one
// string of the environment and so at most 128 KiB, two bytes for each name.
const maxListenFDs = 65536

// maxName is FDNAME_MAX of systemd, in bytes.
const maxName = 255

// errNotForUs is why LISTEN_FDS is left alone.
var errNotForUs = errors.New("LISTEN_FDS is not for this process")

// listenVariables are the environment of sd_listen_fds(3), "" = not set.
type listenVariables struct {
	pid, pidfdID, fds, names string
}

// process is what LISTEN_PID and LISTEN_PIDFDID are compared with.
type process struct {
	pid     int
	pidfdID uint64 // 0 = the kernel has no such number
}

// parseListen gives the name of each announced descriptor, "" for one without a
// usable name. Problems are values that cannot be right; what they spoil is
// left out. The error is errNotForUs, with the reason.
func parseListen(v listenVariables, self process) (names []string, problems []error, err error) {
	if err := checkReceiver(v, self); err != nil {
		return nil, nil, err
	}
	n, ok := parseCount(v.fds)
	if !ok {
		return nil, []error{fmt.Errorf("LISTEN_FDS=%.40q is not a number from 0 to %d", v.fds, maxListenFDs)}, nil
	}
	names, problems = parseNames(v.names, n)
	return names, problems, nil
}

func checkReceiver(v listenVariables, self process) error {
	if v.pid == "" || v.fds == "" {
		return fmt.Errorf("%w: LISTEN_PID or LISTEN_FDS is not set", errNotForUs)
	}
	if pid, err := strconv.Atoi(v.pid); err != nil || pid != self.pid {
		return fmt.Errorf("%w: LISTEN_PID is %.40q, this is %d", errNotForUs, v.pid, self.pid)
	}
	// The number of a PID may be used again, that of its pidfd is not.
	if v.pidfdID == "" || self.pidfdID == 0 {
		return nil
	}
	if id, err := strconv.ParseUint(v.pidfdID, 10, 64); err != nil || id != self.pidfdID {
		return fmt.Errorf("%w: LISTEN_PIDFDID is %.40q, this is %d", errNotForUs, v.pidfdID, self.pidfdID)
	}
	return nil
}

func parseCount(fds string) (n int, ok bool) {
	n, err := strconv.Atoi(fds)
	return n, err == nil && n >= 0 && n <= maxListenFDs
}

// parseNames splits LISTEN_FDNAMES into exactly n names.
func parseNames(joined string, n int) (names []string, problems []error) {
	names = make([]string, n)
	if joined == "" {
		return names, nil
	}
	given := strings.Split(joined, ":")
	if len(given) != n {
		problems = append(problems, fmt.Errorf("LISTEN_FDNAMES has %d names for %d descriptors", len(given), n))
	}
	var bad []string
	for i, name := range given[:min(n, len(given))] {
		if !validName(name) {
			bad = append(bad, name)
			continue
		}
		names[i] = name
	}
	if len(bad) > 0 {
		problems = append(problems, fmt.Errorf("LISTEN_FDNAMES has %d invalid names, the first is %.40q", len(bad), bad[0]))
	}
	return names, problems
}

// validName is fdname_is_valid of systemd: printable ASCII.
func validName(name string) bool {
	for i := range len(name) {
		if name[i] < ' ' || name[i] > '~' {
			return false
		}
	}
	return len(name) <= maxName
}
