package keeper

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// By these variables a process knows its keeper, and that there is one: the address of
// the job socket, and what tells one keeper from the next at the same address.
const (
	socketVariable = "KEEPER_SOCKET"
	idVariable     = "KEEPER_ID"
)

// managers are the variables by which a service manager speaks to its services. What
// this process was told by another one is not for the command.
var managers = []string{
	"NOTIFY_SOCKET", "FDSTORE", "WATCHDOG_USEC", "WATCHDOG_PID",
	"LISTEN_PID", "LISTEN_PIDFDID", "LISTEN_FDS", "LISTEN_FDNAMES",
	socketVariable, idVariable,
}

// environment is that of a new process, but for its own number, which Exec adds.
// names are those of its descriptors from 3 on.
func environment(environ []string, p *place, o Options, names []string) []string {
	env := slices.DeleteFunc(slices.Clone(environ), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(managers, name)
	})
	env = append(env, "NOTIFY_SOCKET="+p.notify, socketVariable+"="+p.job, idVariable+"="+p.id)
	if o.StoreMax > 0 {
		env = append(env, "FDSTORE="+strconv.Itoa(o.StoreMax))
	}
	if o.Watchdog > 0 {
		env = append(env, "WATCHDOG_USEC="+microseconds(o.Watchdog))
	}
	if len(names) > 0 {
		env = append(env, "LISTEN_FDS="+strconv.Itoa(len(names)), "LISTEN_FDNAMES="+strings.Join(names, ":"))
	}
	return env
}

func microseconds(d time.Duration) string {
	return strconv.FormatInt(d.Microseconds(), 10)
}
