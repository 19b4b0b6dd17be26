package daemon

import "sync"

// upgrading is a replacement that this instance has started. The zero value is none.
// Its methods may be called from any goroutine.
type upgrading struct {
	mu     sync.Mutex
	taken  chan struct{} // closed when somebody has taken over, and the manager knows; nil = there is none
	passed chan int      // gets the number of who has taken over: there is no way back
	reason string        // why the last one did not
}

// begin makes room for a replacement, for one at a time.
func (u *upgrading) begin() (taken <-chan struct{}, passed <-chan int, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.taken != nil {
		return nil, nil, errUpgrading
	}
	u.taken, u.passed = make(chan struct{}), make(chan int, 1)
	return u.taken, u.passed, nil
}

// pass notes that a process has taken over, the replacement or another one. It is called
// once.
func (u *upgrading) pass(to int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.taken != nil {
		u.passed <- to
	}
}

// failed ends an upgrade that came to nothing.
func (u *upgrading) failed(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.taken, u.reason = nil, err.Error()
}

// done notes that somebody has taken over, and that the manager was told.
func (u *upgrading) done() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.taken != nil {
		close(u.taken)
	}
}

func (u *upgrading) underWay() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.taken != nil
}

func (u *upgrading) lastError() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.reason
}
