package fdstore

import "context"

// Manager is the service manager that keeps the descriptors. The Notifier of
// package systemd is one.
type Manager interface {
	// SendFDs sends one message of sd_notify(3): a line for each assignment, and
	// copies of the descriptors. It returns when the message is on its way. Messages
	// are dealt with in the order in which they were sent; an error means that this
	// one never will be.
	SendFDs(fds []int, assignments ...string) error

	// Barrier returns when every message that was sent before has been dealt with.
	Barrier(ctx context.Context) error
}

func (s *Store) sendPush(e Entry) error {
	return s.manager.SendFDs([]int{e.FD}, "FDSTORE=1", "FDNAME="+e.Name, "FDPOLL=0")
}

func (s *Store) sendRemove(name string) error {
	return s.manager.SendFDs(nil, "FDSTOREREMOVE=1", "FDNAME="+name)
}
