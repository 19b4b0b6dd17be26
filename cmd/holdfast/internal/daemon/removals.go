package daemon

import "sync"

// removals makes one request to the holder of what many ask for at once: a reload may
// close thousands of sockets, and each request is an answer to wait for.
type removals struct {
	turn sync.Mutex // held during a request
	mu   sync.Mutex
	next *removal // gathers names until its request begins; nil = nobody waits
}

// removal is one request.
type removal struct {
	names []string
	done  chan struct{} // closed when err is set
	err   error
}

// add has a name removed by request, together with those that others add before that
// can begin. It returns when the request is over, with its error.
func (r *removals) add(name string, request func(names ...string) error) error {
	r.mu.Lock()
	joined := r.next
	begins := joined == nil
	if begins {
		joined = &removal{done: make(chan struct{})}
		r.next = joined
	}
	joined.names = append(joined.names, name)
	r.mu.Unlock()

	if begins {
		r.turn.Lock()
		r.mu.Lock()
		r.next = nil
		r.mu.Unlock()
		joined.err = request(joined.names...)
		r.turn.Unlock()
		close(joined.done)
	}
	<-joined.done
	return joined.err
}
