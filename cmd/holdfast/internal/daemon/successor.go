package daemon

import (
	"context"
	"time"

	"github.com/holdfast-proxy/holdfast/fdstore/keeper"
	"github.com/holdfast-proxy/holdfast/systemd"
)

// askPatience is how long the service manager may take to tell about our unit. A busy
// host makes it slow, and not to know costs clients.
const askPatience = 5 * time.Second

// hasSuccessor tells whether another process is to go on with the sockets when this one
// ends. If so the holder keeps them, with who is in their queues. If not, those are
// served, further clients are refused, and the holder keeps nothing.
//
// A stop and a restart are the same signal; the job that systemd has for the unit, or
// the keeper for its command, is not. Where there is no holder every end is a stop. Where the manager cannot be asked,
// sockets are left with the holder, which drops them if it was a stop: the wrong guess
// costs those who are in a queue then, and the other one would cost every client of a
// restart.
func (d *daemon) hasSuccessor() bool {
	if !d.keep.exists() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), askPatience)
	defer cancel()
	if d.keep.client != nil {
		job, err := d.keep.client.Job(ctx)
		if err != nil {
			d.log.Debug("stop or restart: the keeper cannot be asked", "error", err.Error())
		}
		return job != keeper.JobStop
	}
	unit, err := systemd.AskUnit(ctx)
	if err != nil {
		d.log.Debug("stop or restart: the service manager cannot be asked", "error", err.Error())
	}
	return unit.Job != "stop"
}
