package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/vault"
	"github.com/holdfast-proxy/holdfast/proxy"
	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/relay"
)

// connections are those of the engine that outlive this process: they are in a vault,
// which the holder keeps, and which goes over to a replacement.
//
//	none ──open──► open ──goOn──► in service ──letGo──► let go: another process has it
//	                 ▲                                    │
//	                 └───────────── that one has given up ┘
//
// Its methods belong to the goroutine of start and run.
type connections struct {
	log   *slog.Logger
	left  []fdstore.Held    // by another process, not opened yet
	vault *vault.Vault      // nil = none
	found *vault.Found      // in the vault that was left, not gone on with yet; nil = there was none
	notes map[uint32][]byte // beside it, by number
	lost  int               // of those that were left, not counted yet

	failing bool        // to open it
	since   time.Time   // when the other process touched them last
	unheld  atomic.Bool // the holder has not got the vault, and should; any goroutine may ask
}

// open makes the vault: from what another process has left, unless that cannot be read.
// Without one connections end with this process, which is said and no reason not to
// serve. What is left stays so when it is this process that lacks something: it is tried
// again.
func (c *connections) open(loops int) {
	o := vault.Options{Writers: loops, Format: relay.SlotFormat, Reads: relay.OldestFormat, Log: c.log}
	v, err := c.restore(o)
	if v == nil && err == nil {
		v, err = vault.New(o)
	}
	if err != nil && !c.failing {
		c.log.Error("connections end with this process, for now", "error", err.Error())
	}
	c.vault, c.failing = v, err != nil
}

// restore gives nil where there is nothing to be restored.
func (c *connections) restore(o vault.Options) (*vault.Vault, error) {
	if len(c.left) == 0 {
		return nil, nil
	}
	again, err := copyFiles(entries(c.left))
	if err != nil {
		return nil, err
	}
	v, found, err := vault.Restore(o, c.left)
	c.left = nil
	c.lost += len(found.Lost)
	c.logLost(found.Lost)
	switch {
	case err == nil:
		c.found, c.notes = &found, map[uint32][]byte{}
		for number, content := range v.Notes() {
			c.notes[number] = bytes.Clone(content)
		}
	case errors.Is(err, vault.ErrUnreadable):
		c.log.Error("connections that another process has left are lost", "error", err.Error(), "connections", len(found.Lost))
		err = nil
	default:
		c.left, again = again, nil
	}
	closeHeld(again)
	return v, err
}

// logLost says what could not be restored, each reason once.
func (c *connections) logLost(lost []vault.Lost) {
	times := map[string]int{}
	for _, l := range lost {
		times[l.Reason]++
	}
	for reason, n := range times {
		c.log.Error("connections that another process has left are lost", "connections", n, "reason", reason)
	}
}

// attach has the engine keep its connections.
func (c *connections) attach(e *proxy.Engine, loops int) {
	if c.vault == nil {
		return
	}
	vaults := make([]relay.Vault, loops)
	for i := range vaults {
		vaults[i] = c.vault.Writer(i)
	}
	e.Attach(vaults, c.vault.Common(), c.notes)
}

// waits tells whether connections of another process stand still.
func (c *connections) waits() bool { return c.found != nil && len(c.found.Kept) > 0 }

// goOn has the engine go on with what was found, and count what was lost. Nothing has to
// wait for those that were left any more.
func (c *connections) goOn(e *proxy.Engine) {
	lost := c.lost
	c.lost = 0
	e.CountLost(lost)
	if c.found != nil {
		c.restoreTo(e, lost)
	}
	e.Reserve(0)
	e.Unhold()
}

// restoreTo has the engine go on with what was found, beside so many that were lost.
func (c *connections) restoreTo(e *proxy.Engine, lost int) {
	kept := make([]relay.Kept, len(c.found.Kept))
	for i, k := range c.found.Kept {
		kept[i] = relay.Kept(k)
	}
	done := e.Restore(kept)
	pause := time.Since(c.since)
	c.found, c.notes = nil, nil
	if err := c.vault.Settle(); err != nil {
		c.log.Warn("memory of another process is not given back", "error", err.Error())
	}
	if len(kept) > 0 {
		e.Paused(pause)
		c.log.Info("going on with connections of another process", "connections", done.Connections, "ended", done.Ended, "lost", done.Lost+lost, "pause", pause.Round(time.Millisecond))
	}
}

// entrust has the holder keep the vault; store is nil where there is none.
func (c *connections) entrust(ctx context.Context, store *fdstore.Store) error {
	if c.vault == nil || store == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, keepPatience)
	defer cancel()
	return c.vault.Entrust(ctx, store)
}

// openConnections has connections kept, or new ones not any more, as a generation says.
// Where some are left nobody is accepted until goOn: limits of connections count these
// first.
func (d *daemon) openConnections(g *generation) {
	wanted := g.config.Global.Keep == config.KeepConnections
	if d.live.vault == nil && d.offering.lent == nil && (wanted || len(d.live.left) > 0) {
		if len(d.live.left) > 0 {
			d.engine.Hold()
		}
		d.live.open(d.loops)
		d.live.attach(d.engine, d.loops)
	}
	d.engine.SetKeeping(wanted)
}

// entrustConnections has the holder keep the vault, as a generation says. That there is no
// room for it is tried again. Meanwhile connections end with this process.
func (d *daemon) entrustConnections(ctx context.Context, g *generation) {
	store := d.keep.store.Load()
	err := d.keep.noteFull(d.live.entrust(ctx, store))
	if err != nil && !d.live.unheld.Load() {
		d.log.Error("connections end with this process", "error", err.Error())
	}
	unheld := err != nil || store == nil || d.live.failing
	d.live.unheld.Store(unheld)
	wanted := g.config.Global.Keep == config.KeepConnections && (store != nil || d.keep.promised)
	d.engine.ResetAtDeath(wanted && unheld)
}

// keepConnections goes on with what is left, before anything that may take long, and has
// the holder keep it, as a generation says. Who comes in between may be in a segment that the
// holder has not got yet: a kill resets him.
func (d *daemon) keepConnections(ctx context.Context, g *generation) {
	d.openConnections(g)
	d.live.goOn(d.engine)
	d.entrustConnections(ctx, g)
}

// kept is how many connections and pipes are in the vault.
func (c *connections) kept() int {
	if c.vault == nil {
		return 0
	}
	return c.vault.Stats().Kept
}

// lend gives copies of the vault's files, for whoever goes on with it, also of one that
// could not be opened yet. Until takeBack is called nothing gets into a segment that is not
// among them.
func (c *connections) lend() (copies []fdstore.Held, takeBack func(), err error) {
	files, takeBack := entries(c.left), func() {}
	if c.vault != nil {
		files, takeBack = c.vault.Files()
	}
	copies, err = copyFiles(files)
	if err != nil {
		takeBack()
		return nil, nil, err
	}
	return copies, takeBack, nil
}

// copyFiles copies all of the descriptors, or none.
func copyFiles(files []fdstore.Entry) ([]fdstore.Held, error) {
	var copies []fdstore.Held
	for _, f := range files {
		raw, err := unix.FcntlInt(uintptr(f.FD), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			closeHeld(copies)
			return nil, fmt.Errorf("copy %s: %w", f.Name, err)
		}
		copies = append(copies, fdstore.Held{Name: f.Name, FD: sock.NewFD(raw)})
	}
	return copies, nil
}

func entries(files []fdstore.Held) []fdstore.Entry {
	list := make([]fdstore.Entry, len(files))
	for i, f := range files {
		list[i] = fdstore.Entry{Name: f.Name, FD: f.FD.Raw()}
	}
	return list
}

func closeHeld(files []fdstore.Held) {
	for _, f := range files {
		_ = f.FD.Close()
	}
}

// letGo has the engine touch no kept connection any more, and gives up this process's
// copy of the vault. Nothing is accepted meanwhile.
func (c *connections) letGo(e *proxy.Engine) {
	if c.vault == nil {
		c.closeLeft()
		return
	}
	e.LetGo()
	c.since = time.Now()
	if err := c.close(); err != nil {
		c.log.Warn("cannot close the vault", "error", err.Error())
	}
}

// close gives up this process's copy. What the holder has it keeps.
func (c *connections) close() error {
	if c.vault == nil {
		return nil
	}
	v := c.vault
	c.vault = nil
	return v.Close()
}

// end takes the vault from the holder: it is empty, and this is a stop. What could not be
// opened is reset.
func (c *connections) end() {
	if c.vault == nil {
		if n := vault.Discard(c.left); n > 0 {
			c.log.Error("connections that another process has left are lost", "connections", n, "reason", "this process has never been able to open them")
		}
		c.left = nil
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), keepPatience)
	defer cancel()
	if err := errors.Join(c.vault.Withdraw(ctx), c.close()); err != nil {
		c.log.Warn("cannot take the vault out of the store", "error", err.Error())
	}
}

// closeLeft closes what was not opened.
func (c *connections) closeLeft() {
	closeHeld(c.left)
	c.left = nil
}
