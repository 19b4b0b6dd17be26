package daemon

import "sync"

// upgrading is a replacement that this instance has started. The zero value is none.
// Its methods may be called from any goroutine.
type upgrading struct {
	mu     sync.Mutex
	taken  chan struct{} // closed when somebody has taken over, and the manager knows; nil = there is none
	passed chan int      // gets the number of who has taken over: there is no way back
	reason string        // why the last one did not

	settled chan struct{} // closed when it is known whether somebody has; nil = nobody is about to
	ended   int           // number of a replacement that must not, as it is being ended; 0 = none
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
	u.settle()
}

// enter is called before a process is told that it has taken over, which may fail: pass or
// leave follows. It tells whether it may be told so.
func (u *upgrading) enter(process int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if process != 0 && process == u.ended {
		return false
	}
	u.settled = make(chan struct{})
	return true
}

// leave is when nobody has taken over. Who was ended is gone from the handover, too.
func (u *upgrading) leave() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = 0
	u.settle()
}

// settle is called with mu held.
func (u *upgrading) settle() {
	if u.settled != nil {
		close(u.settled)
		u.settled = nil
	}
}

// giveUp is called before a replacement is ended, and returns the number of who has taken
// over nevertheless; 0 = nobody, and not that one any more.
func (u *upgrading) giveUp(replacement int) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	for u.settled != nil {
		settled := u.settled
		u.mu.Unlock()
		<-settled // the answer is being sent, for which there is little time
		u.mu.Lock()
	}
	select {
	case to := <-u.passed:
		return to
	default:
	}
	u.ended = replacement
	return 0
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
