package fdstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// canaryPrefix begins the names of canaries, which are not to be confused with those
// of another process.
const canaryPrefix = "canary/"

func isCanary(name string) bool {
	return strings.HasPrefix(name, canaryPrefix)
}

// canary is a descriptor of which one can tell whether the manager keeps it.
//
// systemd watches what it keeps by epoll(7), unless FDPOLL=0 is said, and has begun
// to when it has dealt with the push. The canary is an epoll instance, as those may
// watch each other. But the kernel allows five in a row and no more:
//
//	top ── fourth ── third ── second ── first ── an eventfd
//
// As long as nobody watches top, top can be made to watch the fourth. Once the
// manager watches top, its own instance is one too many and that fails: with EINVAL
// since Linux 3.3 (reverse_path_check in fs/eventpoll.c), with ELOOP since 6.17 and
// in stable kernels of August 2025 and later (ep_loop_check).
type canary struct {
	name string
	row  []*sock.FD // from the eventfd up; each but the top watches the one before it
}

// maxEpollRow is EP_MAX_NESTS + 1 of the kernel.
const maxEpollRow = 5

func newCanary() (c *canary, err error) {
	made := &canary{name: canaryPrefix + strconv.FormatUint(rand.Uint64(), 36)}
	c = made
	defer func() {
		if err != nil {
			made.close()
			err = fmt.Errorf("make a canary: %w", err)
		}
	}()
	if err := c.append(unix.Eventfd(0, unix.EFD_CLOEXEC)); err != nil {
		return nil, err
	}
	for range maxEpollRow {
		if err := c.append(unix.EpollCreate1(unix.EPOLL_CLOEXEC)); err != nil {
			return nil, err
		}
	}
	for i := 1; i < len(c.row)-1; i++ {
		if err := watch(c.row[i], c.row[i-1]); err != nil {
			return nil, err
		}
	}
	watched, err := c.watched()
	if err == nil && watched {
		err = fmt.Errorf("this kernel allows less than %d epoll instances in a row", maxEpollRow)
	}
	return c, err
}

func (c *canary) append(raw int, err error) error {
	if err != nil {
		return err
	}
	c.row = append(c.row, sock.NewFD(raw))
	return nil
}

// top is what goes to the manager.
func (c *canary) top() *sock.FD {
	return c.row[len(c.row)-1]
}

// watched tells whether somebody watches the canary.
func (c *canary) watched() (bool, error) {
	top, below := c.top(), c.row[len(c.row)-2]
	err := watch(top, below)
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EINVAL):
		return true, nil
	case err == nil:
		err = unix.EpollCtl(top.Raw(), unix.EPOLL_CTL_DEL, below.Raw(), nil)
	}
	return false, err
}

func (c *canary) close() {
	for _, fd := range c.row {
		_ = fd.Close()
	}
}

func watch(above, below *sock.FD) error {
	return unix.EpollCtl(above.Raw(), unix.EPOLL_CTL_ADD, below.Raw(), &unix.EpollEvent{})
}

// hasRoom tells whether the store takes one descriptor more. When it does, it has
// also taken all that were pushed before: it drops nothing as long as it has room.
//
// It asks twice before it says no: a manager that executes itself anew is between two
// epoll instances for a moment.
func (s *Store) hasRoom(ctx context.Context) (bool, error) {
	room, err := s.sendCanary(ctx)
	if room || err != nil {
		return room, err
	}
	return s.sendCanary(ctx)
}

// sendCanary tells whether a canary was taken.
func (s *Store) sendCanary(ctx context.Context) (taken bool, err error) {
	c, err := newCanary()
	if err != nil {
		return false, err
	}
	defer c.close()
	if err := s.manager.SendFDs([]int{c.top().Raw()}, "FDSTORE=1", "FDNAME="+c.name); err != nil {
		return false, fmt.Errorf("push to the descriptor store: %w", err)
	}
	defer s.undo([]string{c.name})
	if err := s.manager.Barrier(ctx); err != nil {
		return false, err
	}
	return c.watched()
}
