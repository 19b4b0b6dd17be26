package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-proxy/holdfast/vmtest/wire"
)

// errWrong is data that differs from what was sent.
var errWrong = errors.New("other data came back than was sent")

// maxErrors is how many errors a report spells out.
const maxErrors = 20

// tally gathers what all clients see.
type tally struct {
	mu      sync.Mutex
	r       wire.LoadReport
	began   time.Time
	lastNew time.Time
	waiting int // clients that had no answer yet
	ready   func() error
	log     io.Writer // gets the errors of the report when they happen
}

func newTally(clients int, ready func() error, log io.Writer) *tally {
	now := time.Now()
	return &tally{began: now, lastNew: now, waiting: clients, ready: ready, log: log}
}

// firstAnswer is called once by each client.
func (t *tally) firstAnswer() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting--
	if t.waiting > 0 {
		return
	}
	t.lastNew = time.Now() // the gap before everybody was up says nothing
	t.r.NewGap = 0
	if err := t.ready(); err != nil {
		t.note("ready", err)
	}
}

// called counts a new connection that ended, well with nil.
func (t *tally) called(a address, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count(&t.r.New, a.String(), err)
	if err == nil {
		t.endNewGap()
	}
}

// streamed counts a stream that ended, well with nil.
func (t *tally) streamed(a address, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count(&t.r.Streams, "stream "+a.String(), err)
}

// moved counts data of a stream that has come back, after it was under way for
// so long.
func (t *tally) moved(bytes int, underWay time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.r.StreamBytes += int64(bytes)
	t.r.StreamGap = max(t.r.StreamGap, underWay)
}

func (t *tally) report() wire.LoadReport {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endNewGap()
	return t.r
}

func (t *tally) endNewGap() {
	now := time.Now()
	t.r.NewGap = max(t.r.NewGap, now.Sub(t.lastNew))
	t.lastNew = now
}

func (t *tally) count(o *wire.Outcomes, what string, err error) {
	if err == nil {
		o.OK++
		return
	}
	t.note(what, err)
	switch {
	case errors.Is(err, errWrong):
		o.Wrong++
	case errors.Is(err, io.ErrUnexpectedEOF):
		o.Cut++
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		o.Refused++
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		o.Timeout++
	default:
		o.Reset++
	}
}

func (t *tally) note(what string, err error) {
	if len(t.r.Errors) < maxErrors {
		line := fmt.Sprintf("%.3fs %s: %v", time.Since(t.began).Seconds(), what, err)
		t.r.Errors = append(t.r.Errors, line)
		fmt.Fprintln(t.log, line)
	}
}
