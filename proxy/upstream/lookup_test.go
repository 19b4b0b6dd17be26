package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// zone is a name server that is changed by hand.
type zone struct {
	mu      sync.Mutex
	addrs   []netip.Addr
	err     error
	queries int
}

func (z *zone) set(err error, addrs ...string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.addrs, z.err = nil, err
	for _, a := range addrs {
		z.addrs = append(z.addrs, addr(a))
	}
}

func (z *zone) lookUp(context.Context, string) ([]netip.Addr, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.queries++
	return z.addrs, z.err
}

func (z *zone) asked() int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.queries
}

var errNoHost error = &net.DNSError{Err: "no such host", Name: "db.test", IsNotFound: true}

// inTime runs a test of a pool for tcp://db.test:5432 on a clock that jumps.
// No socket is involved.
func inTime(t *testing.T, z *zone, test func(t *testing.T, p *Pool)) *logBook {
	t.Helper()
	var book logBook
	synctest.Test(t, func(t *testing.T) {
		p := New(config.Upstream{Name: "app", Servers: []config.Address{tcp("db.test", 5432)}, Balance: config.RoundRobin}, book.logger(), nil)
		p.lookUp = z.lookUp
		stop := run(t, p)
		defer stop()
		synctest.Wait()
		test(t, p)
	})
	return &book
}

// wait lets d pass, and then all that is due happen.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func concrete(p *Pool) []string {
	var list []string
	for _, e := range p.endpoints() {
		list = append(list, e.String())
	}
	return list
}

func TestNameIsLookedUpAtOnceAndThenEachPeriod(t *testing.T) {
	var z zone
	z.set(nil, "192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1")
	book := inTime(t, &z, func(t *testing.T, p *Pool) {
		<-p.Resolved()
		assert.Equal(t, []string{"tcp 192.0.2.1:5432", "tcp [2001:db8::1]:5432"}, concrete(p), "each address once")
		z.set(nil, "192.0.2.7")
		wait(lookUpPeriod - 1)
		assert.Equal(t, 1, z.asked())
		wait(1)
		assert.Equal(t, 2, z.asked())
		assert.Equal(t, []string{"tcp 192.0.2.7:5432"}, concrete(p))
	})
	assert.Equal(t, 1, book.count(`level=INFO msg="upstream app: server tcp://db.test:5432 is now at 192.0.2.7:5432"`))
}

func TestUnchangedAddressesKeepTheirEndpointAndPlace(t *testing.T) {
	var z zone
	z.set(nil, "192.0.2.1", "192.0.2.2")
	inTime(t, &z, func(t *testing.T, p *Pool) {
		before := p.endpoints()
		z.set(nil, "192.0.2.3", "192.0.2.2", "192.0.2.1")
		wait(lookUpPeriod)
		after := p.endpoints()
		require.Len(t, after, 3)
		assert.Same(t, before[0], after[0])
		assert.Same(t, before[1], after[1])
	})
}

func TestVanishedAddressLivesOnForItsConnections(t *testing.T) {
	var z zone
	z.set(nil, "192.0.2.1")
	inTime(t, &z, func(t *testing.T, p *Pool) {
		old := p.endpoints()[0]
		old.Opened()
		z.set(nil, "192.0.2.2")
		wait(lookUpPeriod)
		assert.Equal(t, []string{"tcp 192.0.2.2:5432"}, concrete(p))
		assert.EqualValues(t, 1, p.Status().Servers[0].Connections, "still counted")

		z.set(nil, "192.0.2.1")
		wait(lookUpPeriod)
		assert.EqualValues(t, 1, p.endpoints()[0].record.connections.Load(), "it came back with its counters")
		old.Closed()
		assert.Zero(t, p.Status().Servers[0].Connections)
	})
}

func TestVanishedAddressesWithoutConnectionsAreForgotten(t *testing.T) {
	var z zone
	z.set(nil, "192.0.2.1")
	inTime(t, &z, func(t *testing.T, p *Pool) {
		for i := range 100 {
			z.set(nil, fmt.Sprintf("198.51.100.%d", i))
			wait(lookUpPeriod)
			runtime.GC()
		}
		assert.LessOrEqual(t, len(p.servers[0].records.known), 3)
		assert.Less(t, slices.Max(p.slots.users[:]), 2, "nor do they use up slots")
	})
}

func TestFailedLookUpKeepsTheLastAddresses(t *testing.T) {
	var z zone
	z.set(nil, "192.0.2.1")
	book := inTime(t, &z, func(t *testing.T, p *Pool) {
		for _, failure := range []error{errNoHost, errNoHost} {
			z.set(failure)
			wait(lookUpPeriod)
			assert.Equal(t, []string{"tcp 192.0.2.1:5432"}, concrete(p))
			assert.Equal(t, "no such host", p.Status().Servers[0].LastError)
			assert.True(t, p.Status().Servers[0].Healthy)
		}
		z.set(nil)
		wait(lookUpPeriod)
		assert.Equal(t, []string{"tcp 192.0.2.1:5432"}, concrete(p))
		assert.Equal(t, "the name has no address", p.Status().Servers[0].LastError)
		z.set(nil, "192.0.2.1")
		wait(lookUpPeriod)
		assert.Empty(t, p.Status().Servers[0].LastError)
	})
	assert.Equal(t, 1, book.count(`level=WARN msg="upstream app: server tcp://db.test:5432: look-up failed: no such host"`), "once, not per look-up")
	assert.Equal(t, 1, book.count("look-up works again"))
}

func TestFailedDialsAskTheNameServerAtMostOnceASecond(t *testing.T) {
	var z zone
	z.set(nil, "192.0.2.1")
	inTime(t, &z, func(t *testing.T, p *Pool) {
		wait(5 * time.Second)
		require.Equal(t, 1, z.asked())
		z.set(nil, "192.0.2.2")
		p.endpoints()[0].Failed(errRefused, 0)
		synctest.Wait()
		assert.Equal(t, 2, z.asked(), "at once")
		assert.Equal(t, []string{"tcp 192.0.2.2:5432"}, concrete(p))
		for range 30 {
			p.endpoints()[0].Failed(errRefused, 0)
			wait(100 * time.Millisecond)
		}
		assert.InDelta(t, 5, z.asked(), 1)
		wait(lookUpGap)
		before := z.asked()
		wait(lookUpPeriod)
		assert.Equal(t, before+1, z.asked(), "back to the period")
	})
}

func TestAClientThatWaitsForANameHasItLookedUpSoon(t *testing.T) {
	var z zone
	z.set(errNoHost)
	inTime(t, &z, func(t *testing.T, p *Pool) {
		<-p.Resolved()
		assert.False(t, p.Status().Servers[0].Healthy)
		z.set(nil, "192.0.2.1")
		var tried Tried
		require.Nil(t, p.Pick(netip.Addr{}, &tried, 0))
		wait(lookUpGap)
		assert.NotNil(t, p.Pick(netip.Addr{}, &tried, 0))
	})
}

func TestNamesOfTwoServersKeepTheConfiguredOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(config.RoundRobin, tcp("slow.test", 1), tcp("192.0.2.9", 1), tcp("fast.test", 1))
		p.lookUp = func(_ context.Context, host string) ([]netip.Addr, error) {
			if host == "slow.test" {
				time.Sleep(time.Second)
				return []netip.Addr{addr("192.0.2.1")}, nil
			}
			return []netip.Addr{addr("192.0.2.5")}, nil
		}
		defer run(t, p)()
		synctest.Wait()
		assert.Equal(t, []string{"tcp 192.0.2.9:1", "tcp 192.0.2.5:1"}, concrete(p))
		select {
		case <-p.Resolved():
			t.Error("one name is not looked up yet")
		default:
		}
		<-p.Resolved()
		assert.Equal(t, []string{"tcp 192.0.2.1:1", "tcp 192.0.2.9:1", "tcp 192.0.2.5:1"}, concrete(p))
	})
}

func TestRunEndsDuringALookUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(config.RoundRobin, tcp("db.test", 1))
		p.lookUp = func(ctx context.Context, _ string) ([]netip.Addr, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		stop := run(t, p)
		synctest.Wait()
		stop()
		assert.Empty(t, p.Status().Servers[0].LastError, "that it was ended is no failure")
	})
}

func TestASilentNameServerIsTimedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(config.RoundRobin, tcp("db.test", 1))
		p.lookUp = func(ctx context.Context, _ string) ([]netip.Addr, error) {
			<-ctx.Done()
			return nil, errors.Join(errors.New("lookup db.test"), ctx.Err())
		}
		defer run(t, p)()
		wait(lookUpTimeout)
		<-p.Resolved()
		assert.Equal(t, "timed out", p.Status().Servers[0].LastError)
	})
}

func TestLocalhostIsANameLikeAnyOther(t *testing.T) {
	t.Parallel()
	l := listen(t, "tcp", "127.0.0.1:0")
	p := newPool(config.RoundRobin, tcp("localhost", addressOf(l).Port))
	run(t, p)
	<-p.Resolved()
	assert.Contains(t, concrete(p), "tcp "+l.Addr().String())
}
