package vault_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/vault"
)

// BenchmarkKeepAndDrop is what an event loop pays for a connection, in bursts that do
// not wake the sweeper. StopTimer would take longer than a burst.
func BenchmarkKeepAndDrop(b *testing.B) {
	const burst = 100
	v := newVault(b, vault.Options{})
	w := v.Writer(0)
	fd := int32(eventfd(b))
	var spent time.Duration
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		for range burst {
			slot, _, _ := w.Take()
			if w.Keep(slot, fd, fd) {
				w.Drop(slot)
			}
		}
		spent += time.Since(start)
		v.Sweep()
	}
	assert.Zero(b, v.Stats().Refused)
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N)/burst, "ns/connection")
}

// BenchmarkKeepAndDropAtOnce is the same in two event loops at once.
func BenchmarkKeepAndDropAtOnce(b *testing.B) {
	const (
		burst = 100
		loops = 2
	)
	v := newVault(b, vault.Options{Writers: loops})
	fd := int32(eventfd(b))
	var spent atomic.Int64
	for b.Loop() {
		var done sync.WaitGroup
		for i := range loops {
			done.Go(func() {
				w := v.Writer(i)
				start := time.Now()
				for range burst {
					slot, _, _ := w.Take()
					if w.Keep(slot, fd, fd) {
						w.Drop(slot)
					}
				}
				spent.Add(int64(time.Since(start)))
			})
		}
		done.Wait()
		v.Sweep()
	}
	assert.Zero(b, v.Stats().Refused)
	b.ReportMetric(float64(spent.Load())/float64(b.N)/burst/loops, "ns/connection")
}

// BenchmarkSweep is what the sweeper pays for a connection, where each second one lives.
func BenchmarkSweep(b *testing.B) {
	for _, live := range []int{0, 250} {
		b.Run(fmt.Sprint(live, " of 500 live"), func(b *testing.B) {
			v := newVault(b, vault.Options{})
			w := v.Writer(0)
			fd := int32(eventfd(b))
			slots := make([]uint32, 500)
			for b.Loop() {
				b.StopTimer()
				for i := range slots {
					slots[i], _, _ = w.Take()
					require.True(b, w.Keep(slots[i], fd, fd))
				}
				for i := len(slots) - 1; i >= live; i-- {
					w.Drop(slots[i])
				}
				b.StartTimer()
				v.Sweep()
				b.StopTimer()
				for _, slot := range slots[:live] {
					w.Drop(slot)
				}
				v.Sweep()
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/500, "ns/record")
		})
	}
}

// BenchmarkRestore finds records of one descriptor each, all of the same file, as this
// process may not open more than 20,000. Of the larger number all are dead: they are
// peeked at and closed.
func BenchmarkRestore(b *testing.B) {
	for _, bm := range []struct {
		n    int
		live bool
	}{{10_000, true}, {100_000, false}} {
		b.Run(fmt.Sprint(bm.n), func(b *testing.B) {
			o := vault.Options{InFlight: 1 << 20}
			v, err := vault.New(o)
			require.NoError(b, err)
			fill(b, v.Writer(0), bm.n, eventfd(b))
			if !bm.live {
				v.Forget()
			}
			held := left(b, v)
			defer closeHeld(b, held)
			files := make([]fdstore.Entry, len(held))
			for i, h := range held {
				files[i] = fdstore.Entry{Name: h.Name, FD: h.FD.Raw()}
			}
			for b.Loop() {
				b.StopTimer()
				again := copies(b, files)
				b.StartTimer()
				v, found, err := vault.RestoreOnly(o, again)
				b.StopTimer()
				require.NoError(b, err)
				if bm.live {
					require.Len(b, found.Kept, bm.n)
				}
				closeKept(found)
				require.NoError(b, v.Close())
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(bm.n), "ns/record")
		})
	}
}

func closeHeld(t testing.TB, held []fdstore.Held) {
	t.Helper()
	for _, h := range held {
		require.NoError(t, h.FD.Close())
	}
}

func closeKept(found vault.Found) {
	for _, k := range found.Kept {
		for _, raw := range k.FDs {
			if raw >= 0 {
				_ = unix.Close(int(raw))
			}
		}
	}
}
