package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/pidfd"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// adoption is what this instance has to do with another program whose sockets it serves.
//
//	take ──► makeReady ──► served by both ──follow──► asked to stop, if it is to be ──► it has ended
//	   └─────────┴──anything wrong──► giveUp: the other program is as it was
//
// As long as it goes on with a socket, nothing is done to that which it would notice. nil
// is none. Of the methods goesOn and forget may be called from any goroutine.
type adoption struct {
	Adopt
	log     *slog.Logger
	process *pidfd.Process // nil = nothing of it is here
	frozen  []int          // numbers there of what was blocking; nil = it runs
	thaw    *thaw          // undoes that if this process dies

	mu     sync.Mutex
	shared map[uint64]bool // by SO_COOKIE: with what it goes on
	paths  keptPaths
}

// newAdoption is nil for nil.
func newAdoption(adopt *Adopt, log *slog.Logger) *adoption {
	if adopt == nil {
		return nil
	}
	return &adoption{Adopt: *adopt, log: log}
}

// due tells whether this start is the one that adopts, and not one after it: a restart by
// who keeps the sockets.
func (a *adoption) due(back tookBack) bool {
	return a != nil && back.kept.Current.Number == 0 && len(back.sockets.Offers) == 0
}

// goesOn tells whether the other program goes on with a socket when this instance lets
// go of it.
func (a *adoption) goesOn(s activation.Socket) bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shared[s.Info.Cookie]
}

// forget has the path of a socket go with it.
func (a *adoption) forget(s activation.Socket) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.paths.forget(s.Info.Addr.Path)
}

// makeReady prepares the other program for what is done to its sockets. Call giveUp after
// an error.
func (a *adoption) makeReady(ctx context.Context, theirs []pidfd.Found) error {
	if a.Stop == 0 {
		return nil
	}
	if main := a.mainProcess(ctx, theirs); main != "" {
		return &AdoptError{
			a.process.String(), fmt.Errorf("%s, which has started it, has the same sockets and would go on with them", main),
			"name that one, or leave --stop away",
		}
	}
	var blocking []int
	var sockets []*sock.FD
	for _, f := range theirs {
		if f.Blocking {
			blocking, sockets = append(blocking, f.Number), append(sockets, f.FD)
		}
		if err := a.keepPath(f.Info.Addr); err != nil {
			return &AdoptError{a.process.String(), err, "its path would go with the other program: let this user write to its directory, or leave --stop away"}
		}
	}
	if len(blocking) == 0 {
		return nil
	}
	var err error
	if a.thaw, err = newThaw(a.PID, sockets); err != nil {
		return err
	}
	a.frozen = blocking
	return freeze(ctx, a.process)
}

// mainProcess names who goes on with sockets when the other program has stopped, as it is
// only a worker of that one; "" = nobody. This process has them by now, whatever it started.
func (a *adoption) mainProcess(ctx context.Context, theirs []pidfd.Found) string {
	parent := a.process.Parent()
	if parent == nil {
		return ""
	}
	defer parent.Close()
	if parent.PID() == os.Getpid() {
		return ""
	}
	found, _ := parent.ListeningSockets(ctx) // who has not the right to look has to know better
	defer closeFound(found)
	for _, f := range found {
		if slices.ContainsFunc(theirs, func(t pidfd.Found) bool { return t.Info.Cookie == f.Info.Cookie }) {
			return parent.String()
		}
	}
	return ""
}

// goOn ends the freeze.
func (a *adoption) goOn() {
	if a.frozen != nil {
		_ = a.process.Signal(unix.SIGCONT) // it has ended, or could be signalled before
	}
	a.thaw.dismiss()
	a.frozen, a.thaw = nil, nil
}

// giveUp leaves the other program as it was.
func (a *adoption) giveUp() {
	for _, number := range a.frozen {
		if fd, err := a.process.Get(number); err == nil {
			_ = unix.SetNonblock(fd.Raw(), false)
			_ = fd.Close()
		}
	}
	a.goOn()
	a.paths.drop()
	_ = a.process.Close()
	a.process, a.shared = nil, nil
}

// rejoin finds out, where a process before this one has adopted, with which sockets the
// other program goes on. Those are the same also if the PID is another program's by now:
// then it has none of this instance's.
func (a *adoption) rejoin(ctx context.Context) {
	if a == nil || a.PID == os.Getpid() { // the number was free again
		return
	}
	p, err := pidfd.Open(a.PID)
	if err != nil {
		return // it has ended
	}
	a.process = p
	found, err := p.ListeningSockets(ctx)
	if err != nil && !errors.Is(err, pidfd.ErrExited) {
		a.log.Warn("not known with which sockets another program goes on", "process", p.String(), "error", err.Error())
	}
	closeFound(found)
	a.share(found)
}

// common are those of the instance's sockets that the other program has, too.
func (a *adoption) common(held []activation.Socket) []activation.Socket {
	return slices.DeleteFunc(slices.Clone(held), func(s activation.Socket) bool { return !a.goesOn(s) })
}

// follow has the other program stop, if it is to, and waits for its end, or that of ctx.
// held are the instance's sockets.
func (a *adoption) follow(ctx context.Context, held []activation.Socket) {
	if a.process == nil {
		return
	}
	defer a.process.Close()
	common := a.common(held)
	if len(common) == 0 && a.frozen == nil {
		return // one before this process has seen to it
	}
	if a.Stop != 0 {
		stop := a.watchPaths(common)
		defer stop()
		a.askToStop()
	}
	if err := a.process.Wait(ctx); err != nil {
		return // this instance ends first
	}
	a.share(nil)
	a.log.Info("the other program has ended", "process", a.process.String())
}

func (a *adoption) askToStop() {
	a.share(nil) // its stop must not be in the way of a socket's
	err := a.process.Signal(a.Stop)
	if err != nil && !errors.Is(err, pidfd.ErrExited) {
		a.log.Error("the other program cannot be asked to stop", "error", err.Error())
	} else if err == nil {
		a.log.Info("the other program is asked to stop", "process", a.process.String(), "signal", unix.SignalName(a.Stop))
	}
	a.goOn()
}

// share notes which sockets are the other program's, too: nil = none any more.
func (a *adoption) share(found []pidfd.Found) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shared = make(map[uint64]bool, len(found))
	for _, f := range found {
		a.shared[f.Info.Cookie] = true
	}
}
