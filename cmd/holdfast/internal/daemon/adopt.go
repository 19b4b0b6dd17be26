package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/pidfd"
	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// Adopt names a program that runs, and knows nothing of this one. The instance takes its
// listening sockets as far as the configuration wants them.
type Adopt struct {
	PID       int
	Listeners []string    // those that must get a socket of it, and no others do; empty = all that can, at least one
	Stop      unix.Signal // sent to it when this instance serves; 0 = it goes on beside
}

// AdoptError is why sockets of another program cannot be taken.
type AdoptError struct {
	Process string // "process 12 (nginx)"
	Err     error
	Hint    string // what a person can do about it
}

// Error is like "process 12 (nginx): it has no socket for listener web".
func (e *AdoptError) Error() string { return e.Process + ": " + e.Err.Error() }

func (e *AdoptError) Unwrap() error { return e.Err }

// adopt puts the first generation into service with sockets of another program. After an
// error that one is as it was.
func (d *daemon) adopt(units *activation.Source, inputs config.Inputs, unread error) error {
	cfg, err := parse(inputs, unread)
	if err != nil {
		return err
	}
	raiseDescriptors(d.log) // the other program may have many sockets
	taken, err := d.adoption.take(d.until, cfg)
	if err != nil {
		return err
	}
	defer taken.Close()
	d.tookOver = d.adoption.process.String() // before somebody asks
	d.log.Info("adopting", "from", d.tookOver, "sockets", len(taken.Offers))
	err = d.serveAdopted(units, taken, inputs)
	if err != nil {
		d.adoption.giveUp()
	}
	return err
}

func (d *daemon) serveAdopted(units, taken *activation.Source, inputs config.Inputs) error {
	g, err := d.prepare(1, inputs, units, taken)
	if err != nil {
		return err
	}
	return d.serveFirst(g)
}

// take takes the sockets that listeners want out of the other program. What it has beside
// them is closed here again, and nothing was done with it.
func (a *adoption) take(ctx context.Context, cfg *config.Config) (*activation.Source, error) {
	if a.PID == os.Getpid() {
		return nil, &AdoptError{Process: fmt.Sprintf("process %d", a.PID), Err: errors.New("it is this one"), Hint: "name another process"}
	}
	p, err := pidfd.Open(a.PID)
	if err != nil {
		return nil, err
	}
	a.process = p
	source, err := a.takeFrom(ctx, cfg)
	if err != nil {
		a.giveUp()
		return nil, err
	}
	return source, nil
}

func (a *adoption) takeFrom(ctx context.Context, cfg *config.Config) (*activation.Source, error) {
	if a.Stop != 0 {
		if err := a.maySignal(); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, stepPatience)
	defer cancel()
	found, err := a.process.ListeningSockets(ctx)
	if err != nil && !errors.Is(err, pidfd.ErrExited) {
		return nil, err
	}
	wanted := newWanted(cfg, a.Listeners)
	theirs := wanted.choose(found) // closes the others
	if err := a.check(cfg, wanted, found, theirs); err != nil {
		closeFound(theirs)
		return nil, err
	}
	if err := a.makeReady(ctx, theirs); err != nil {
		closeFound(theirs)
		return nil, err
	}
	return a.offer(theirs)
}

// maySignal finds out before anything is done whether the other program can be asked to
// stop.
func (a *adoption) maySignal() error {
	err := a.process.Signal(0)
	if errors.Is(err, unix.EPERM) {
		return &AdoptError{a.process.String(), fmt.Errorf("it cannot be asked to stop: %w", unix.EPERM), "run as its user or as root, or with CAP_KILL; or leave --stop away"}
	}
	return nil // one that has ended needs no stop
}

// check refuses what would not go well.
func (a *adoption) check(cfg *config.Config, wanted wanted, found, theirs []pidfd.Found) error {
	refuse := func(hint, format string, args ...any) error {
		return &AdoptError{a.process.String(), fmt.Errorf(format, args...), hint}
	}
	if a.isInstance(cfg, found) {
		a.log.Warn("it is an instance of holdfast: holdfast serve --takeover=always takes over from it, and loses nothing", "process", a.process.String())
		if a.Stop != 0 && a.Stop != unix.SIGKILL {
			// Its stop takes its sockets out of the way of new clients, whoever has them.
			return refuse("use holdfast serve --takeover=always", "it is an instance of holdfast, whose stop ends its sockets also here")
		}
	}
	var failed severalError
	for _, name := range wanted.missing(theirs) {
		failed = append(failed, refuse(listens(found), "it has no socket for listener %s", name))
	}
	if len(failed) == 0 && len(theirs) == 0 {
		failed = append(failed, refuse(listens(found), "it listens at no address of the configuration"))
	}
	for _, f := range theirs {
		if f.Blocking && a.Stop == 0 {
			failed = append(failed, refuse("--stop has it ended when its sockets are taken",
				"%s is a blocking socket: it could not go on with that", f.Info.String()))
		}
	}
	if len(failed) > 0 {
		return failed
	}
	return nil
}

// isInstance tells an instance of this program, at the configured handover socket or by
// its name.
func (a *adoption) isInstance(cfg *config.Config, found []pidfd.Found) bool {
	handover := sock.UnixPacket(cfg.Global.HandoverSocket)
	return strings.HasSuffix(a.process.String(), " (holdfast)") ||
		slices.ContainsFunc(found, func(f pidfd.Found) bool { return f.Info.Addr == handover })
}

// listens is for who has named the wrong process, or the wrong address.
func listens(found []pidfd.Found) string {
	const most = 16
	var all []string
	for _, f := range found {
		if f.Info.Listening {
			all = append(all, f.Info.String())
		}
	}
	switch {
	case len(all) == 0:
		return "it listens nowhere; of a program with several processes name the one that has the sockets: ss -lntxp"
	case len(all) > most:
		all = append(all[:most], "…")
	}
	return "it listens on " + strings.Join(all, ", ")
}

// offer hands the sockets on. A Unix socket's file is the instance's, too, under the path
// that it has now.
func (a *adoption) offer(theirs []pidfd.Found) (*activation.Source, error) {
	source := &activation.Source{Origin: activation.Pidfd}
	for _, f := range theirs {
		offer := activation.Offer{FD: f.FD}
		if f.Info.Addr.HasFile() {
			var err error
			if offer.Name, err = f.Info.StoreNameAt(f.Info.Addr.Path); err != nil {
				closeFound(theirs)
				return nil, err
			}
		}
		source.Offers = append(source.Offers, offer)
	}
	a.share(theirs)
	return source, nil
}

func closeFound(found []pidfd.Found) {
	for _, f := range found {
		_ = f.FD.Close() // the other program has it, too
	}
}
