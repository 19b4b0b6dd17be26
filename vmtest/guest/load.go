package main

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-proxy/holdfast/vmtest/wire"
)

// load is a set of clients of one or more addresses, behind each of which an
// echo server must be.
type load struct {
	streams  int           // kept open, per address
	beat     time.Duration // of a stream between two pieces of data, on average
	idle     int           // connections, per address, on which nothing moves between the first exchange and the last
	callers  int           // that open one connection after the other, per address
	pause    time.Duration // of a caller between two connections, on average
	hold     time.Duration // at most, of a caller's connection; each is held a random time
	patience time.Duration // without progress, after which a connection counts as lost
	log      io.Writer     // gets the first errors of clients when they happen
	tally    *tally
}

// runLoad puts the addresses under load until TERM, lets each client end what it
// has begun, and prints a wire.LoadReport. It is ready when every client was
// served once.
func runLoad(args []string) error {
	l := load{log: os.Stderr}
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.IntVar(&l.streams, "streams", 4, "connections to keep open, per address")
	flags.DurationVar(&l.beat, "beat", 50*time.Millisecond, "of a stream between two pieces of data, on average")
	flags.IntVar(&l.idle, "idle", 0, "connections on which nothing moves, per address")
	flags.IntVar(&l.callers, "callers", 2, "clients that connect anew again and again, per address")
	flags.DurationVar(&l.pause, "pause", 25*time.Millisecond, "of a caller between two connections, on average")
	flags.DurationVar(&l.hold, "hold", 0, "how long a caller keeps each connection, at most")
	flags.DurationVar(&l.patience, "patience", 20*time.Second, "how long a client waits for progress")
	if err := flags.Parse(args); err != nil {
		return err
	}
	addresses, err := parseAddresses(flags.Args())
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	report := l.run(ctx, addresses, notifyReady)
	return json.NewEncoder(os.Stdout).Encode(report)
}

// run ends when ctx does and every client with it. It calls ready once, when
// each client has had an answer.
func (l *load) run(ctx context.Context, addresses []address, ready func() error) wire.LoadReport {
	clients := len(addresses) * (l.streams + l.idle + l.callers)
	l.tally = newTally(clients, ready, l.log)
	var all sync.WaitGroup
	for _, a := range addresses {
		for range l.streams {
			all.Go(func() { l.keepStreaming(ctx, a) })
		}
		for i := range idleWorkers {
			share := (l.idle + i) / idleWorkers
			all.Go(func() { l.holdIdle(ctx, a, share) })
		}
		for range l.callers {
			all.Go(func() { l.keepCalling(ctx, a) })
		}
	}
	all.Wait()
	return l.tally.report()
}

// rest sleeps for pause, on average, so that clients do not keep step with what
// they meet.
func (l *load) rest(ctx context.Context) { sleep(ctx, rand.N(2*l.pause+1)) }

// sleep returns early when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
