package keeper

import (
	"fmt"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// signals brings signals to the loop, in their order, by a descriptor.
type signals struct {
	in      chan os.Signal
	wake    *sock.FD // an eventfd, readable when there are some
	sorting sync.WaitGroup

	mu      sync.Mutex
	waiting []unix.Signal
}

// catchSignals takes the signals over from their defaults. Those that were ignored
// stay so, as nohup(1) and shells want it, and are ignored in the command too.
//
// PIPE is caught, and not ignored, so that a log that nobody reads is no death and
// the command has its default.
func catchSignals() (*signals, error) {
	raw, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	s := &signals{in: make(chan os.Signal, 64), wake: sock.NewFD(raw)}
	caught := []os.Signal{unix.SIGCHLD, unix.SIGTERM, unix.SIGPIPE}
	for _, number := range []unix.Signal{unix.SIGINT, unix.SIGQUIT, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH} {
		if !signal.Ignored(number) {
			caught = append(caught, number)
		}
	}
	signal.Notify(s.in, caught...)
	s.sorting.Go(s.sort)
	return s, nil
}

// sort ends with close.
func (s *signals) sort() {
	for received := range s.in {
		if received == unix.SIGPIPE {
			continue
		}
		s.mu.Lock()
		s.waiting = append(s.waiting, received.(unix.Signal))
		s.mu.Unlock()
		_, _ = unix.Write(s.wake.Raw(), []byte{1, 0, 0, 0, 0, 0, 0, 0}) // it fails only when it is full of them
	}
}

// take gives what has come since the last time.
func (s *signals) take() []unix.Signal {
	_, _ = unix.Read(s.wake.Raw(), make([]byte, 8)) // EAGAIN: nothing has come
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.waiting
	s.waiting = nil
	return taken
}

func (s *signals) close() {
	signal.Stop(s.in)
	close(s.in)
	s.sorting.Wait()
	_ = s.wake.Close()
}
