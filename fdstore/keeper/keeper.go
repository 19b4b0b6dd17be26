package keeper

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/occasional"
	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/internal/manager"
)

// keeper is one between start and end. All of it belongs to the goroutine of Run.
//
//	            spawn              told to end, says so, hung
//	waiting ─────────────► running ──────────────────► ending
//	no main                 main ◄────── MAINPID ─────── main, killAt
//	restartAt                │                            │
//	   ▲                     │      main has ended        │
//	   └─────────────────────┴────────────┬───────────────┘
//	                                      ▼
//	             over, if a stop was asked for or no restart is wanted,
//	             and the former ones have ended
type keeper struct {
	options Options
	log     *slog.Logger
	self    int // number of this process

	place   *place
	poll    *poll
	signals *signals
	notify  *manager.Socket
	store   *manager.Store
	jobs    *jobs

	main      *process // nil = waiting
	former    former
	isReady   bool
	ending    bool
	endSignal unix.Signal // the last that it was told to end by
	backoff   backoff
	watchdog  watchdog
	restartAt time.Time // zero while there is a main process
	killAt    time.Time // zero while it is not ending, and when it was killed

	stopping bool // a stop was asked for
	over     bool
	last     exit

	complaints *occasional.Log // about what others do wrong
}

// complaintEvery bounds what others can have this process log.
const complaintEvery = time.Second

// Run runs a command and keeps its descriptors, until a signal asks for a stop or the
// command ends for good. It returns the exit code of that end as a shell gives it, and
// 0 if it was as asked for.
//
// It takes over signals, and wait(2) for every child of this process, which all orphans
// that descend from it become: nothing else in it may start any. An error means that
// nothing runs.
func Run(o Options) (code int, err error) {
	defer closeSockets(o.Sockets)
	k, err := open(o)
	if err != nil {
		return 0, err
	}
	defer k.close()
	if err := k.begin(); err != nil {
		return 0, err
	}
	for !k.over {
		if err := k.poll.once(k.nextDeadline()); err != nil {
			return 0, err
		}
		k.checkDeadlines(time.Now())
	}
	return k.code(), nil
}

// open makes everything that is there before a process.
func open(o Options) (_ *keeper, err error) {
	o = o.withDefaults()
	if err := o.Check(); err != nil {
		return nil, err
	}
	if _, err := exec.LookPath(o.Command[0]); err != nil {
		return nil, err
	}
	k := &keeper{log: o.Log, self: os.Getpid(), complaints: occasional.New(o.Log, complaintEvery)}
	defer func() {
		if err != nil {
			k.close()
		}
	}()
	// What this process was started with must not get through to the command.
	if err := unix.CloseRange(firstFD, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		k.log.Warn("descriptors that this process was started with may reach the command", "error", err.Error())
	}
	// Who loses its parent becomes a child of this process, as with PID 1.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become the parent of orphans: %w", err)
	}
	o.StoreMax = k.fit(o.StoreMax, len(o.Sockets))
	k.options = o
	if k.signals, err = catchSignals(); err != nil {
		return nil, err
	}
	if k.place, err = openPlace(o.Dir); err != nil {
		return nil, err
	}
	return k, k.openSockets()
}

func (k *keeper) openSockets() (err error) {
	if k.poll, err = newPoll(); err != nil {
		return err
	}
	k.store = manager.NewStore(manager.Options{
		Max: k.options.StoreMax, NameBytes: nameBytes(k.options.Sockets), Epoll: k.poll.epoll,
	})
	k.poll.other = k.store.HungUp
	if k.notify, err = manager.Listen(k.place.notify); err != nil {
		return err
	}
	// After the notify socket: who gets an answer here may push at once.
	if k.jobs, err = listenJobs(k.place, k.poll, k.isKin, k.options.Restart.job()); err != nil {
		return err
	}
	return errors.Join(
		k.poll.on(k.notify.Raw(), unix.EPOLLIN, func() { k.receive() }),
		k.poll.on(k.signals.wake.Raw(), unix.EPOLLIN, k.onSignals),
	)
}

// close drops what is stored. Whoever still runs has no keeper any more.
func (k *keeper) close() {
	if k.signals != nil {
		k.signals.close()
	}
	if k.main != nil {
		k.main.close()
	}
	k.former.close()
	if k.jobs != nil {
		k.jobs.close()
	}
	if k.notify != nil {
		_ = k.notify.Close()
	}
	if k.store != nil {
		k.store.Close()
	}
	if k.poll != nil {
		_ = k.poll.epoll.Close()
	}
	if k.place != nil {
		if err := k.place.close(); err != nil {
			k.log.Warn("cannot tidy up", "error", err.Error())
		}
	}
}

func closeSockets(sockets []fdstore.Held) {
	for _, s := range sockets {
		_ = s.FD.Close()
	}
}

// code is the exit code of the last end.
func (k *keeper) code() int {
	asked := k.stopping && (!k.last.known || k.last.signal != 0 && k.last.signal == k.endSignal)
	if asked {
		return 0
	}
	return k.last.shell()
}
