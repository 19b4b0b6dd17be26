package daemon

import (
	"context"
	"time"

	"github.com/holdfast-proxy/holdfast/systemd"
)

// ending is how this process ends.
type ending int32

const (
	lives ending = iota

	// stops: nobody serves after it. Who waits in a queue is served, further clients
	// are refused, and the holder keeps nothing.
	stops

	// handsOn: the holder keeps the sockets, and the next process serves who is in
	// their queues.
	handsOn
)

// askPatience is how long the service manager may take to say why it stops us.
const askPatience = 2 * time.Second

// whichEnding tells a stop from a restart, which are the same signal. Where there is
// no holder every end is a stop. Where the manager cannot be asked, sockets are left
// with the holder, which drops them if it was a stop: the wrong guess costs those
// who are in a queue then, and the other one would cost every client of a restart.
func (d *daemon) whichEnding() ending {
	if d.keep.store == nil {
		return stops
	}
	ctx, cancel := context.WithTimeout(context.Background(), askPatience)
	defer cancel()
	unit, err := systemd.AskUnit(ctx)
	switch {
	case err != nil:
		d.log.Debug("stop or restart: the service manager cannot be asked", "error", err.Error())
	case unit.Job == "stop":
		return stops
	}
	return handsOn
}
