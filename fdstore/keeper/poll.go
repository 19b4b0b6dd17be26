package keeper

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// poll calls who waits for a descriptor. The store uses the same epoll instance, and
// what nobody here waits for is the store's.
type poll struct {
	epoll *sock.FD
	calls map[int]func()
	other func(fd int)
}

func newPoll() (*poll, error) {
	raw, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return &poll{epoll: sock.NewFD(raw), calls: map[int]func(){}}, nil
}

// on calls whenever there is one of the events.
func (p *poll) on(fd int, events uint32, call func()) error {
	err := unix.EpollCtl(p.epoll.Raw(), unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
	if err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	p.calls[fd] = call
	return nil
}

// off is due before the descriptor is closed.
func (p *poll) off(fd int) {
	_ = unix.EpollCtl(p.epoll.Raw(), unix.EPOLL_CTL_DEL, fd, nil)
	delete(p.calls, fd)
}

// once makes one call, if one is due by a time; the zero time is never. One and no
// more: it may close what the next event is about. The kernel takes turns.
func (p *poll) once(until time.Time) error {
	events := make([]unix.EpollEvent, 1)
	n, err := unix.EpollWait(p.epoll.Raw(), events, millisecondsTo(until))
	switch {
	case errors.Is(err, unix.EINTR):
		return nil
	case err != nil:
		return fmt.Errorf("epoll: %w", err)
	case n == 0:
		return nil
	}
	fd := int(events[0].Fd)
	if call := p.calls[fd]; call != nil {
		call()
	} else {
		p.other(fd)
	}
	return nil
}

// millisecondsTo rounds up, so that it is not too early then.
func millisecondsTo(t time.Time) int {
	if t.IsZero() {
		return -1
	}
	const most = time.Hour // what fits, and more than any test of a clock
	left := min(max(time.Until(t), 0), most)
	return int((left + time.Millisecond - 1) / time.Millisecond)
}
