package relay

import (
	"math"
	"sync"
	"time"
)

// Selection says which connections are meant. The zero value is all of them.
type Selection struct {
	Socket *Socket   // those that it accepted; nil = of all sockets
	Before time.Time // those that were accepted before, a time.Now of this process; zero = whenever
}

// HangUp ends the connections of a selection that are there now, and waits for it: in
// order where nothing is under way, as reset where something is.
func (r *Relay) HangUp(which Selection) {
	r.eachWait(func(l *loop) { l.hangUpSome(which, math.MaxInt64) })
}

// HangUpSome is HangUp for so many connections, of each loop its share.
func (r *Relay) HangUpSome(which Selection, n int64) {
	counts, left := r.counts(which)
	shares := make(map[*loop]int64, len(counts))
	for l, mine := range counts {
		if left <= 0 {
			break
		}
		share := min(mine, (n*mine+left-1)/left)
		shares[l] = share
		n, left = n-share, left-mine
	}
	r.eachWait(func(l *loop) { l.hangUpSome(which, shares[l]) })
}

// Count is how many connections of a selection there are.
func (r *Relay) Count(which Selection) int64 {
	_, total := r.counts(which)
	return total
}

func (r *Relay) counts(which Selection) (counts map[*loop]int64, total int64) {
	counts = make(map[*loop]int64, len(r.loops))
	var mu sync.Mutex
	r.eachWait(func(l *loop) {
		var n int64
		l.pairs.each(func(p *pair) {
			if which.has(r, p) {
				n++
			}
		})
		mu.Lock()
		defer mu.Unlock()
		counts[l] = n
		total += n
	})
	return counts, total
}

// hangUpSome ends connections of a selection, so many at most.
func (l *loop) hangUpSome(which Selection, most int64) {
	l.pairs.each(func(p *pair) {
		if most > 0 && which.has(l.relay, p) {
			most--
			l.hangUp(p, Stopped)
		}
	})
}

func (s Selection) has(r *Relay, p *pair) bool {
	return (s.Socket == nil || p.use.socket == s.Socket) &&
		(s.Before.IsZero() || p.opened < r.at(s.Before))
}

// eachWait runs fn in every loop's goroutine, and returns when all have.
func (r *Relay) eachWait(fn func(*loop)) {
	var all sync.WaitGroup
	for _, l := range r.loops {
		all.Add(1)
		ok := l.post(func(l *loop) {
			defer all.Done()
			fn(l)
		})
		if !ok {
			all.Done()
		}
	}
	all.Wait()
}
