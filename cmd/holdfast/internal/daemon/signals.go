package daemon

import (
	"context"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// signals are those that this process acts on.
type signals struct {
	stop    chan string // TERM or INT, by name
	dump    chan struct{}
	reload  chan struct{}
	upgrade chan struct{}
	until   context.Context // ends with the first of stop, also while nobody receives it

	first   context.CancelFunc
	in      chan os.Signal
	sorting sync.WaitGroup
}

// catchSignals takes the signals over from their defaults. A peer that is gone
// must not end the process by PIPE.
func catchSignals() *signals {
	s := &signals{stop: make(chan string, 2), dump: make(chan struct{}, 1), reload: make(chan struct{}, 1), upgrade: make(chan struct{}, 1), in: make(chan os.Signal, 4)}
	s.until, s.first = context.WithCancel(context.Background())
	signal.Ignore(unix.SIGPIPE)
	signal.Notify(s.in, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2)
	s.sorting.Go(s.sort)
	return s
}

// sort hands each signal to who acts on it. It ends with release.
func (s *signals) sort() {
	for sig := range s.in {
		switch sig {
		case unix.SIGUSR1:
			ask(s.dump)
		case unix.SIGHUP:
			ask(s.reload)
		case unix.SIGUSR2:
			ask(s.upgrade)
		default:
			s.first()
			select {
			case s.stop <- unix.SignalName(sig.(unix.Signal)):
			default: // two are enough for anything
			}
		}
	}
}

// ask asks for one thing, unless that is due already.
func ask(due chan<- struct{}) {
	select {
	case due <- struct{}{}:
	default:
	}
}

// release ends the catching. The signals do nothing from then on: one that comes
// while the process exits must not make that a death by signal.
func (s *signals) release() {
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2)
	signal.Stop(s.in)
	close(s.in)
	s.sorting.Wait()
	s.first()
}
