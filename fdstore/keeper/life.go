package keeper

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// begin takes on the process that a keeper before this one has left, or starts one.
func (k *keeper) begin() error {
	left, err := k.place.recorded()
	if err != nil {
		return err
	}
	if left != nil {
		k.adopt(left)
		k.log.Info("taken on: it runs already", "pid", left.pid)
		return nil
	}
	p, err := k.spawn()
	if err != nil {
		return err
	}
	k.adopt(p)
	k.log.Info("started", "pid", p.pid, "command", k.options.Command[0])
	return nil
}

// restart starts the command again.
func (k *keeper) restart() {
	p, err := k.spawn()
	if err != nil {
		pause := k.backoff.next(0)
		k.restartAt = time.Now().Add(pause)
		k.log.Error("cannot restart", "error", err.Error(), "again_in", pause)
		return
	}
	k.adopt(p)
	k.log.Info("restarted", "pid", p.pid, "descriptors", len(k.store.Kept()))
}

// adopt makes a process the main one.
func (k *keeper) adopt(p *process) {
	if k.main == nil {
		k.isReady, k.watchdog = false, watchdog{interval: k.options.Watchdog}
	} else {
		k.former = append(k.former, k.main) // and is watched on
	}
	k.main, k.restartAt = p, time.Time{}
	k.ending, k.killAt = false, time.Time{}
	if err := k.poll.on(p.pidfd.Raw(), unix.EPOLLIN, k.lookAfter); err != nil {
		k.log.Error("the main process is not watched", "pid", p.pid, "error", err.Error())
	}
	if k.stopping {
		k.end(k.endSignal)
	}
}

// dismiss lets go of the main process.
func (k *keeper) dismiss() {
	k.poll.off(k.main.pidfd.Raw())
	k.main.close()
	k.main = nil
	k.watchdog.rest()
}

// lookAfter sees to all processes that have ended. What they said before is heard
// first: it may be that another one is the main one, or what is to be kept.
func (k *keeper) lookAfter() {
	k.drain()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid == 0 {
			break
		}
		if k.main != nil && pid == k.main.pid {
			k.ended(exitOf(status))
		}
	}
	if k.main != nil && k.main.ended() { // and is not our child
		k.ended(exit{})
	}
	k.former.prune(func(p *process) { k.poll.off(p.pidfd.Raw()) })
	if k.isFinished() {
		k.over = true
	}
}

// isFinished tells whether nothing runs and nothing will.
func (k *keeper) isFinished() bool {
	return k.main == nil && k.restartAt.IsZero() && len(k.former) == 0
}

// ended is what follows when the main process has ended: it leaves nobody of its
// process group behind, who could be in the way of the next one.
func (k *keeper) ended(e exit) {
	lived := time.Since(k.main.since)
	k.log.Info("ended", "pid", k.main.pid, "by", e.String(), "after", lived.Round(time.Millisecond))
	k.main.killGroup()
	k.dismiss()
	k.killAt, k.last = time.Time{}, e
	if err := k.place.forget(); err != nil {
		k.log.Warn("cannot remove the record", "error", err.Error())
	}
	if k.stopping || !k.options.Restart.wantsRestart(e) {
		k.awaitFormer()
		return
	}
	pause := k.backoff.next(lived)
	k.restartAt = time.Now().Add(pause)
	k.log.Info("restarting", "in", pause)
}

// ready notes that the main process has started, or reloaded.
func (k *keeper) ready() {
	if !k.isReady {
		k.isReady = true
		k.log.Info("ready", "pid", k.main.pid, "after", time.Since(k.main.since).Round(time.Millisecond))
	}
}

// beginEnd gives the main process StopTimeout from now on to end, once.
func (k *keeper) beginEnd(reason string) {
	if k.ending {
		return
	}
	k.log.Info("ending", "pid", k.main.pid, "reason", reason)
	k.ending, k.killAt = true, time.Now().Add(k.options.StopTimeout)
	k.watchdog.rest()
}

// end has the main process end by a signal.
func (k *keeper) end(signal unix.Signal) {
	k.endSignal = signal
	k.beginEnd(unix.SignalName(signal))
	// One that is stopped must run to end.
	if err := errors.Join(k.main.signal(signal), k.main.signal(unix.SIGCONT)); err != nil {
		k.log.Error("cannot end the main process", "error", err.Error())
	}
}

// extend is asked for by a process that takes longer, from now on.
func (k *keeper) extend(by time.Duration) {
	until := time.Now().Add(by)
	k.killAt = later(k.killAt, until)
	k.watchdog.extend(until)
}

// stop has everything end. A process that asks knows it before it has the signal.
func (k *keeper) stop(signal unix.Signal) {
	if k.stopping {
		k.former.signal(signal) // they have had their time since the first
	}
	k.stopping, k.endSignal = true, signal
	k.jobs.set(JobStop)
	if k.main != nil {
		k.end(signal)
		return
	}
	k.restartAt = time.Time{}
	k.awaitFormer()
}

// awaitFormer gives the former main processes StopTimeout from now on to end, where no
// other one follows.
func (k *keeper) awaitFormer() {
	if k.isFinished() {
		k.over = true
		return
	}
	if k.killAt.IsZero() {
		k.log.Info("waiting for former main processes", "count", len(k.former))
		k.killAt = time.Now().Add(k.options.StopTimeout)
	}
}

// onSignals does what signals to the keeper ask for.
func (k *keeper) onSignals() {
	for _, signal := range k.signals.take() {
		switch signal {
		case unix.SIGCHLD:
			k.lookAfter()
		case unix.SIGTERM, unix.SIGINT, unix.SIGQUIT:
			k.stop(signal)
		default:
			k.forward(signal)
		}
	}
}

func (k *keeper) forward(signal unix.Signal) {
	if k.main == nil {
		return // the next process reads its files anyway
	}
	if err := k.main.signal(signal); err != nil {
		k.log.Warn("signal not forwarded", "error", err.Error())
	}
}
