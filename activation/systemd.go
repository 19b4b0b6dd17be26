package activation

import (
	"errors"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// firstFD is the first passed descriptor: SD_LISTEN_FDS_START of sd_listen_fds(3).
const firstFD = 3

// FromSystemd takes the descriptors that LISTEN_FDS announces, sets
// close-on-exec on each, and unsets the variables, so that a child does not
// believe they are meant for it. It gives something once: later calls find an
// empty environment. The Source is never nil.
//
// Variables meant for another process are ignored, as a wrapper may stand
// between systemd and this program; the log has it at debug. What is wrong with
// them is logged as a warning, and the rest is used. Call it early in main,
// before children are started.
func FromSystemd(log *slog.Logger) *Source {
	defer unsetListenVariables()
	names, problems, err := parseListen(readListenVariables(), thisProcess())
	if err != nil {
		log.Debug("no sockets from systemd", "reason", err)
	}
	for _, p := range problems {
		log.Warn("socket activation", "error", p)
	}

	s := &Source{Origin: Systemd}
	var missing []string
	for i, name := range names {
		raw := firstFD + i
		switch inherited, err := isInherited(raw); {
		case errors.Is(err, unix.EBADF):
			missing = append(missing, strconv.Itoa(raw))
		case err != nil:
			log.Warn("socket activation: descriptor not usable", "fd", raw, "error", err)
		case !inherited:
			log.Warn("socket activation: descriptor was opened by this process and not passed to it", "fd", raw)
		default:
			unix.CloseOnExec(raw)
			s.Offers = append(s.Offers, Offer{Name: name, FD: sock.NewFD(raw)})
		}
	}
	if len(missing) > 0 {
		log.Warn("socket activation: descriptors announced but not open",
			"LISTEN_FDS", len(names), "count", len(missing), "fds", shorten(missing))
	}
	return s
}

// isInherited tells a descriptor that came through exec from one that this
// process opened. The former cannot have close-on-exec yet, all that Go opens
// has it. With a LISTEN_FDS that is too large, the next number may be the Go
// runtime's own epoll instance.
func isInherited(fd int) (bool, error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return flags&unix.FD_CLOEXEC == 0, err
}

func shorten(list []string) string {
	const most = 8
	if len(list) > most {
		return strings.Join(list[:most], " ") + " …"
	}
	return strings.Join(list, " ")
}

func readListenVariables() listenVariables {
	return listenVariables{
		pid:     os.Getenv("LISTEN_PID"),
		pidfdID: os.Getenv("LISTEN_PIDFDID"),
		fds:     os.Getenv("LISTEN_FDS"),
		names:   os.Getenv("LISTEN_FDNAMES"),
	}
}

func unsetListenVariables() {
	for _, v := range []string{"LISTEN_PID", "LISTEN_PIDFDID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		_ = os.Unsetenv(v) // fails for malformed names only
	}
}
