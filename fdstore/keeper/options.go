package keeper

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/holdfast-proxy/holdfast/fdstore"
)

// Options of Run.
type Options struct {
	// Command is the program and its arguments, passed on as they are. A name without
	// a slash is looked for in $PATH, at each start.
	Command []string

	// Step is the arguments with which this program calls [Exec] with those that follow.
	// The process that becomes the command runs it so first.
	Step []string

	// Dir is where the next keeper finds the running process if this one is killed:
	// sockets, a lock and the number of the process. It is made if it is missing, for
	// this user alone, but not its parent. "" = the sockets have no path, and a process
	// whose keeper was killed has none any more.
	Dir string

	// StoreMax is how many descriptors are kept; 0 = none.
	StoreMax int

	// Watchdog is after how long without WATCHDOG=1 the process is taken for hung;
	// 0 = never.
	Watchdog time.Duration

	// StopTimeout is how long the process may take to end, when it was told to or has
	// said that it does, before it is killed; 0 = it is killed at once.
	StopTimeout time.Duration

	// Restart says when the command is started again; "" = RestartAlways.
	Restart RestartPolicy

	// Sockets are passed to each process before what is stored, as those of socket
	// units are. Run closes them.
	Sockets []fdstore.Held

	// Log gets what happens to the process; nil = nowhere.
	Log *slog.Logger
}

// RestartPolicy says when the command is started again after its main process has
// ended. After a stop it never is.
type RestartPolicy string

// The values of RestartPolicy.
const (
	RestartAlways    RestartPolicy = "always"
	RestartOnFailure RestartPolicy = "on-failure" // not after a good end, as systemd.service(5) has it
	RestartNever     RestartPolicy = "never"
)

// Check tells what makes no sense.
func (o Options) Check() error {
	policies := []RestartPolicy{RestartAlways, RestartOnFailure, RestartNever}
	switch {
	case len(o.Command) == 0 || len(o.Step) == 0:
		return errors.New("no command to keep")
	case o.Restart != "" && !slices.Contains(policies, o.Restart):
		return fmt.Errorf("restart is one of %q, not %q", policies, o.Restart)
	case o.StoreMax < 0:
		return fmt.Errorf("%d is no size of a store", o.StoreMax)
	case o.Watchdog < 0 || o.StopTimeout < 0:
		return errors.New("a time is negative")
	}
	return nil
}

// withDefaults fills in what may be left out.
func (o Options) withDefaults() Options {
	if o.Restart == "" {
		o.Restart = RestartAlways
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
