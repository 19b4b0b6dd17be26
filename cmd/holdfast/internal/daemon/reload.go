package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"github.com/holdfast-proxy/holdfast/proxy/control"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// errStopping is why an instance that is told to stop reads no configuration.
var errStopping = errors.New("the instance is stopping")

// errOffering is why an instance from which another one is taking over reads no
// configuration: that one has read it, and the sockets are lent.
var errOffering = errors.New("another process is taking over: ask again in a moment")

// Reload reads the configuration again and puts it into service. It returns when that
// is done or refused. Reloads are done one after the other, in the order in which they
// are asked for. One that the store has no room for is done again if that turns out to
// be larger by now. It may be called from any goroutine; a reload that has begun goes on
// when ctx ends.
func (d *daemon) Reload(ctx context.Context) (done status.Reload, err error) {
	once := func() bool { return d.callWithin(ctx, func() { done, err = d.reload() }) }
	ran := once()
	if ran && d.keep.hasGrown(ctx, err) {
		ran = once()
	}
	if !ran {
		return status.Reload{}, cmp.Or(ctx.Err(), errStopping)
	}
	if err != nil {
		err = &control.RefusedError{Reason: err.Error(), Problems: Problems(err)}
	}
	return done, err
}

// hangup reloads at SIGHUP. The service manager is told of the beginning and the end,
// whatever the end is: a unit of Type=notify-reload asks by that signal, and
// "systemctl reload" waits for the answer.
//
// Nobody else asks like that, and to say RELOADING=1 unasked is not harmless: when the
// process dies before READY=1 and ExecReload= ends after it, systemd 257 goes on waiting
// for READY=1, up to TimeoutStartSec=, before it starts the service again.
func (d *daemon) hangup() {
	d.tell(d.notify.Reloading)
	if _, err := d.reload(); errors.Is(err, errOffering) {
		d.log.Warn("not reloaded", "reason", err.Error()) // of any other end the log has told
	}
	d.tell(d.notify.Ready)
}

// reload puts the configuration into service as it is now. If that is refused
// everything is as before, and status says why until a reload succeeds.
func (d *daemon) reload() (status.Reload, error) {
	if d.offering.active {
		return status.Reload{Generation: d.current.number}, errOffering
	}
	changes, err := d.change()
	done := status.Reload{Generation: d.current.number, Changes: changes}
	switch {
	case errors.Is(err, context.Canceled):
		err = errStopping // which is no fault of the configuration
	case err != nil:
		d.refused(err)
	default:
		d.refusal = nil
		d.showProblems()
		d.log.LogAttrs(d.until, slog.LevelInfo, "reloaded", reloadAttrs(done)...)
	}
	d.tellStatus()
	return done, err
}

// change makes the configuration, as it is now, the one in service.
func (d *daemon) change() ([]status.Change, error) {
	inputs, err := d.source.Read(d.until)
	if err != nil {
		return nil, err
	}
	g, err := d.prepare(d.current.number+1, inputs)
	if err != nil {
		return nil, err
	}
	if err := d.keepGeneration(d.until, g); err != nil {
		return nil, errors.Join(err, d.abandon(g))
	}
	d.keepConnections(d.until, g)
	return d.commit(g)
}

func reloadAttrs(done status.Reload) []slog.Attr {
	attrs := []slog.Attr{slog.Uint64("generation", done.Generation)}
	for _, c := range done.Counts() {
		attrs = append(attrs, slog.Int(string(c.Kind), c.Sockets))
	}
	return attrs
}
