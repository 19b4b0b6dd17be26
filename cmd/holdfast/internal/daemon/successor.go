package daemon

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/holdfast-proxy/holdfast/fdstore/keeper"
	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/status"
	"github.com/holdfast-proxy/holdfast/systemd"
)

// askPatience is how long the service manager may take to tell about our unit. A busy
// host makes it slow, and not to know costs clients.
const askPatience = 5 * time.Second

// successor says whether another process is to go on when this one ends.
type successor int

const (
	noSuccessor successor = iota // this is a stop
	maySucceed                   // the holder keeps what it has, and cannot tell what this is
	willSucceed                  // this is a restart
)

// successor finds out. A stop and a restart are the same signal; the job that systemd has
// for the unit, or the keeper for its command, is not. Where there is no holder every end
// is a stop.
//
// If anybody may go on, sockets are left with the holder, with who is in their queues: it
// drops them if it was a stop. The wrong guess costs those who are in a queue then, and
// the other one would cost every client of a restart.
func (d *daemon) successor() successor {
	if !d.keep.exists() {
		return noSuccessor
	}
	ctx, cancel := context.WithTimeout(context.Background(), askPatience)
	defer cancel()
	if d.keep.client != nil {
		switch job, err := d.keep.client.Job(ctx); {
		case err != nil:
			d.log.Debug("stop or restart: the keeper cannot be asked", "error", err.Error())
			return maySucceed
		case job == keeper.JobStop:
			return noSuccessor
		}
		return willSucceed
	}
	unit, err := askUnit(ctx)
	switch {
	case err != nil:
		d.log.Debug("stop or restart: the service manager cannot be asked", "error", err.Error())
		return maySucceed
	case unit.Job == "stop":
		return noSuccessor
	case unit.Job == "restart":
		return willSucceed
	}
	return maySucceed // a signal that somebody has sent
}

// askUnit asks as long as it may help: a bus or a manager that is just being restarted
// answers a moment later.
func askUnit(ctx context.Context) (systemd.Unit, error) {
	for {
		unit, err := systemd.AskUnit(ctx)
		if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || ctx.Err() != nil {
			return unit, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return unit, err
		}
	}
}

// keepsConnections tells whether connections outlive this process, which was told to
// stop: those of a restart do, as far as the configuration does not say otherwise, and if
// the holder has all of the vault. This process would be the last that has the rest.
func (d *daemon) keepsConnections(next successor) bool {
	g := d.current.config.Global
	held := d.live.vault != nil && d.keep.holder() != status.HolderNone && !d.live.unheld.Load()
	if next == noSuccessor || !held || g.Keep != config.KeepConnections {
		return false
	}
	return g.OnTerm == config.OnTermKeep || g.OnTerm == config.OnTermAuto && next == willSucceed
}
