package daemon

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/holdfast-proxy/holdfast/proxy/control"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// Why an upgrade is not begun.
var (
	errUpgrading = errors.New("an upgrade is under way")
	errInit      = errors.New("this process is PID 1, and with it ends everything: run it under holdfast keep")
)

// Upgrade starts the program as it is installed now, and returns when that has taken
// over, or has not: whoever asks may go meanwhile. It may be called from any goroutine.
func (d *daemon) Upgrade(context.Context) (status.Upgrade, error) {
	done, err := d.upgrade()
	if err != nil {
		d.log.Error("upgrade failed, this process goes on", "error", err.Error())
		return done, &control.RefusedError{Reason: "upgrade: " + err.Error(), Problems: Problems(err)}
	}
	return done, nil
}

// upgradeUnasked is for a signal, which nobody waits for.
func (d *daemon) upgradeUnasked() { _, _ = d.Upgrade(d.until) }

func (d *daemon) upgrade() (status.Upgrade, error) {
	var taken <-chan struct{}
	var passed <-chan int
	err := errStopping
	d.call(func() { taken, passed, err = d.upgrading.begin() })
	if err != nil {
		return status.Upgrade{}, err
	}
	r, err := d.startReplacement()
	if err == nil {
		err = r.await(d.until, &d.upgrading, passed)
	}
	switch {
	case err != nil && d.until.Err() != nil:
		return status.Upgrade{}, err // the last one: awaitSession waits for the end of its session
	case err != nil:
		d.upgrading.failed(err)
		return status.Upgrade{}, err
	}
	select {
	case <-taken:
	case <-time.After(farewell): // the manager is busy, and the new process serves
	}
	return status.Upgrade{PID: r.pid, Former: os.Getpid()}, nil
}

// sessionPatience is for how long a stop waits for who is taking over, and would be done
// in about a second.
const sessionPatience = 3 * time.Second

// awaitSession is called when this instance is told to stop, and waits for the end of a
// session. The replacement that it has started is ended by that, too, and lets go of the
// sockets: those are to be closed in order then. Another process that is taking over goes
// on with them, and with the connections. A further signal is not waited beyond.
func (d *daemon) awaitSession(further <-chan string) {
	patience := sessionPatience
	if d.upgrading.underWay() {
		patience = endPatience
	}
	limit := time.After(patience)
	for d.offering.active && !d.succeeded {
		select {
		case fn := <-d.calls:
			fn()
		case <-further:
			return
		case <-limit:
			return
		}
	}
}
