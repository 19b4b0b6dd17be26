package upstream

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// with is the configuration of p after change.
func (p *Pool) with(change func(cfg *config.Upstream)) config.Upstream {
	cfg := p.Config()
	if cfg.Health != nil {
		health := *cfg.Health
		cfg.Health = &health
	}
	change(&cfg)
	return cfg
}

// withServers is the configuration of p with other servers.
func (p *Pool) withServers(servers ...config.Address) config.Upstream {
	return p.with(func(cfg *config.Upstream) { cfg.Servers = servers })
}

func isResolved(p *Pool) bool {
	select {
	case <-p.Resolved():
		return true
	default:
		return false
	}
}

func TestNextKnowsWhatWasKnownOfTheServersThatStay(t *testing.T) {
	t.Parallel()
	checks := &config.Health{Rise: 1, Fall: 1}
	p := New(config.Upstream{Name: "app", Servers: hosts(3), Health: checks}, quiet, nil)
	first, second := p.endpoints()[0], p.endpoints()[1]
	first.Opened()
	second.Opened()
	second.Opened()
	second.Failed(unix.ECONNREFUSED, 0)

	next := p.Next(p.withServers(unixPath("/new"), tcp("192.0.2.2", 80), tcp("192.0.2.1", 80)))
	assert.True(t, isResolved(next))
	assert.Equal(t, status.Upstream{Name: "app", Servers: []status.Server{
		{Address: "unix:///new", Healthy: true},
		{Address: "tcp://192.0.2.2:80", Connections: 2, LastError: "connection refused"},
		{Address: "tcp://192.0.2.1:80", Healthy: true, Connections: 1},
	}}, next.Status(), "in the new order, without the server that is gone")
	assert.Equal(t, down, next.endpoints()[1].grade(0))
	next.endpoints()[1].passed()
	assert.Equal(t, penalised, next.endpoints()[1].grade(int64(penalty)-1))
}

func TestNextHasTheFirstAddressesAtOnce(t *testing.T) {
	t.Parallel()
	p := newPool(config.RoundRobin, hosts(1)...)
	next := p.Next(p.withServers(tcp("2001:db8::1", 80), unixPath("@x")))
	assert.Equal(t, []string{"tcp [2001:db8::1]:80", "unix @x"}, concrete(next))
	assert.True(t, isResolved(next))
	assert.Equal(t, []string{"tcp 192.0.2.1:80"}, concrete(p), "nothing changed for the old one")
}

func TestConnectionsCountInEveryGeneration(t *testing.T) {
	t.Parallel()
	counts := func(p *Pool) (n []int64) {
		for _, s := range p.Status().Servers {
			n = append(n, s.Connections)
		}
		return n
	}
	p := newPool(config.LeastConnections, hosts(2)...)
	next := p.Next(p.withServers(hosts(3)...))
	last := next.Next(next.withServers(hosts(2)...))
	p.endpoints()[0].Opened()
	next.endpoints()[1].Opened()
	next.endpoints()[1].Opened()
	last.endpoints()[1].Opened()
	assert.Equal(t, []int64{1, 3}, counts(p))
	assert.Equal(t, []int64{1, 3, 0}, counts(next))
	assert.Equal(t, []int64{1, 3}, counts(last))
	for range 2 {
		var tried Tried
		e := last.Pick(netip.Addr{}, &tried, 0)
		assert.Equal(t, "tcp 192.0.2.1:80", e.String(), "the fewest over all generations")
		e.Opened()
	}

	for range 2 {
		next.endpoints()[1].Closed()
	}
	assert.Equal(t, []int64{3, 1}, counts(last))
}

func TestAServerThatIsGoneLivesOnForItsConnections(t *testing.T) {
	t.Parallel()
	p := newPool(config.RoundRobin, hosts(2)...)
	gone := p.endpoints()[1]
	gone.Opened()
	next := p.Next(p.withServers(hosts(1)...))
	assert.Len(t, next.Status().Servers, 1)
	assert.EqualValues(t, 1, p.Status().Servers[1].Connections)
	gone.Failed(errRefused, 0)
	gone.Closed()
	assert.Zero(t, p.Status().Servers[1].Connections)
}

func TestEachGenerationHasItsOwnLimitsOfHealth(t *testing.T) {
	t.Parallel()
	p := New(config.Upstream{Name: "app", Servers: hosts(1), Health: &config.Health{Rise: 2, Fall: 4}}, quiet, nil)
	strict := p.Next(p.with(func(cfg *config.Upstream) { cfg.Health = &config.Health{Rise: 1, Fall: 3} }))
	before, after := p.endpoints()[0], strict.endpoints()[0]
	before.failed(errRefused)
	before.failed(errRefused)
	assert.False(t, after.down())
	after.failed(errRefused)
	assert.True(t, after.down(), "the streak goes on, up to the new limit")
	assert.True(t, before.down(), "one state for both")
	before.passed()
	assert.True(t, before.down())
	after.passed()
	assert.False(t, before.down())
}

func TestHealthIsForgottenWhileItIsNotChecked(t *testing.T) {
	t.Parallel()
	checks := &config.Health{Rise: 1, Fall: 1}
	p := New(config.Upstream{Name: "app", Servers: hosts(1), Health: checks}, quiet, nil)
	p.endpoints()[0].failed(errRefused)
	off := p.Next(p.with(func(cfg *config.Upstream) { cfg.Health = nil }))
	assert.Equal(t, ready, off.endpoints()[0].grade(0))
	assert.True(t, off.Status().Servers[0].Healthy)
	assert.True(t, p.endpoints()[0].down(), "nothing changed for the old one")

	on := off.Next(off.with(func(cfg *config.Upstream) { cfg.Health = checks }))
	assert.Equal(t, ready, on.endpoints()[0].grade(0), "it starts up")
}

func TestSourceHashChoosesTheSameServerInEveryGeneration(t *testing.T) {
	t.Parallel()
	p := newPool(config.SourceHash, hosts(7)...)
	reordered := hosts(7)
	slices.Reverse(reordered)
	next := p.Next(p.withServers(reordered...))
	for _, client := range clients(200) {
		require.Equal(t, placed(p, client), placed(next, client))
	}
}

func TestUpTo64EndpointsAreToldApartAlsoAfterThereWereMore(t *testing.T) {
	t.Parallel()
	p := newPool(config.RoundRobin, hosts(150)...)
	next := p.Next(p.withServers(hosts(150)[70 : 70+64]...))
	var tried Tried
	for range 64 {
		require.NotNil(t, next.Pick(netip.Addr{}, &tried, 0))
	}
}

func TestAReloadNeverWaitsForANameThatWasKnown(t *testing.T) {
	var z zone
	z.set(nil, "192.0.2.1", "2001:db8::1")
	inTime(t, &z, func(t *testing.T, p *Pool) {
		wait(lookUpPeriod / 2)
		next := p.Next(p.withServers(tcp("192.0.2.9", 5432), tcp("db.test", 5432)))
		assert.True(t, isResolved(next))
		assert.Equal(t, []string{"tcp 192.0.2.9:5432", "tcp 192.0.2.1:5432", "tcp [2001:db8::1]:5432"}, concrete(next))

		z.set(nil, "192.0.2.3")
		defer run(t, next)()
		synctest.Wait()
		assert.Equal(t, []string{"tcp 192.0.2.9:5432", "tcp 192.0.2.3:5432"}, concrete(next), "it is looked up again soon")
		assert.Len(t, concrete(p), 2, "each generation looks up for itself")
	})
}

func TestAReloadWaitsForNamesThatNeverHadAnAddress(t *testing.T) {
	var z zone
	z.set(errNoHost)
	book := inTime(t, &z, func(t *testing.T, p *Pool) {
		<-p.Resolved()
		next := p.Next(p.withServers(hosts(1)[0], tcp("db.test", 5432)))
		assert.False(t, isResolved(next))
		assert.Equal(t, status.Server{Address: "tcp://db.test:5432", LastError: "no such host"}, next.Status().Servers[1])
		defer run(t, next)()
		<-next.Resolved()
		z.set(nil, "192.0.2.1")
		wait(lookUpPeriod)
		assert.Len(t, concrete(next), 2)
	})
	assert.Equal(t, 1, book.count("look-up failed"), "once, not per generation")
	assert.Equal(t, 2, book.count("is now at 192.0.2.1:5432"))
}

func TestAFailedLookUpIsKnownToTheNextGeneration(t *testing.T) {
	var z zone
	z.set(nil, "192.0.2.1")
	inTime(t, &z, func(t *testing.T, p *Pool) {
		z.set(errNoHost)
		wait(lookUpPeriod)
		next := p.Next(p.with(func(cfg *config.Upstream) { cfg.Balance = config.Random2 }))
		assert.True(t, isResolved(next))
		assert.Equal(t, status.Server{Address: "tcp://db.test:5432", Healthy: true, LastError: "no such host"}, next.Status().Servers[0])
	})
}

// Generations overlap for as long as the new one waits for names. A name may move
// then, and clients may come to its new address in both.
func TestAnAddressThatTwoGenerationsFindIsOne(t *testing.T) {
	var z zone
	z.set(nil, "192.0.2.1")
	inTime(t, &z, func(t *testing.T, p *Pool) {
		left := p.endpoints()[0]
		left.Opened()
		next := p.Next(p.withServers(tcp("db.test", 5432), hosts(1)[0]))
		z.set(nil, "192.0.2.2")
		wait(lookUpPeriod)
		p.endpoints()[0].Opened()

		defer run(t, next)()
		synctest.Wait()
		assert.Equal(t, "tcp 192.0.2.2:5432", concrete(next)[0])
		assert.EqualValues(t, 1, next.endpoints()[0].record.connections.Load())
		assert.EqualValues(t, 2, next.Status().Servers[0].Connections, "also at the address that it has left")
		left.Closed()
	})
}

func TestAZoneIsFoundAgainInTheNextGeneration(t *testing.T) {
	t.Parallel()
	p := newPool(config.RoundRobin, tcp("fe80::1%lo", 80), tcp("fe80::1%nosuch0", 80))
	p.endpoints()[0].Opened()
	next := p.Next(p.with(func(cfg *config.Upstream) { cfg.Balance = config.Random2 }))
	assert.True(t, isResolved(next))
	assert.EqualValues(t, 1, next.Status().Servers[0].Connections)
	assert.Equal(t, "no network interface nosuch0", next.Status().Servers[1].LastError)
}

func TestAPoolThatRunsNoMoreGivesWhatItKnew(t *testing.T) {
	t.Parallel()
	p := newPool(config.RoundRobin, tcp("db.test", 80))
	var z zone
	z.set(errNoHost)
	p.lookUp = z.lookUp
	stop := run(t, p)
	<-p.Resolved()
	next := p.Next(p.withServers(tcp("db.test", 80), hosts(1)[0]))
	stop()
	for range 3 {
		var tried Tried
		assert.Nil(t, p.Pick(netip.Addr{}, &tried, 0), "asks for a look-up that nobody makes")
		e := next.Pick(netip.Addr{}, &tried, 0)
		e.Opened()
		e.Failed(errRefused, 0)
		e.Closed()
	}
	last := next.Next(next.withServers(hosts(1)...))
	last.endpoints()[0].failed(errRefused)
	assert.Equal(t, "connection refused", next.Status().Servers[1].LastError)
}

// The dial of a client that an earlier generation accepted may be the one that
// brings a server down.
func TestWhatAnEarlierGenerationNoticedIsLogged(t *testing.T) {
	t.Parallel()
	var book logBook
	l := listen(t, "tcp", "127.0.0.1:0")
	p := probed(&book, addressOf(l))
	cfg := p.with(func(cfg *config.Upstream) {
		cfg.Health = &config.Health{Interval: 10 * time.Millisecond, Timeout: time.Second, Rise: 1000, Fall: 3}
	})
	for range 3 {
		p.endpoints()[0].Failed(errRefused, 0)
	}
	next := p.Next(cfg)
	run(t, next)
	require.Eventually(t, func() bool { return book.count(" is down: ") == 1 }, patience, time.Millisecond)

	last := next.Next(next.with(func(cfg *config.Upstream) { cfg.Health.Rise = 1 }))
	stop := run(t, last)
	require.Eventually(t, func() bool { return book.count(" is up") == 1 }, patience, time.Millisecond)
	stop()
	assert.Equal(t, 1, book.count(" is down: "), "once, not per generation")
}

func TestTrafficGoesOnThroughTwoHundredReloads(t *testing.T) {
	t.Parallel()
	l := addressOf(listen(t, "tcp", "127.0.0.1:0"))
	var z zone
	z.set(nil, "127.0.0.3")
	p := New(config.Upstream{
		Name: "app", Balance: config.LeastConnections,
		Servers: []config.Address{l, tcp("127.0.0.2", l.Port), tcp("db.test", l.Port)},
		Health:  &config.Health{Interval: time.Hour, Timeout: time.Second, Rise: 1, Fall: 1},
	}, quiet, nil)
	p.lookUp = z.lookUp
	var running, traffic sync.WaitGroup
	start := func(p *Pool) context.CancelFunc {
		ctx, cancel := context.WithCancel(t.Context())
		running.Go(func() { p.Run(ctx) })
		return cancel
	}
	stop := start(p)
	<-p.Resolved()

	var current atomic.Pointer[Pool]
	current.Store(p)
	end := make(chan struct{})
	held := make([][]*Endpoint, 3)
	for thread := range held {
		traffic.Go(func() { held[thread] = load(&current, thread, end) })
	}
	for i := range 200 {
		z.set(nil, fmt.Sprintf("127.0.0.%d", i%3+3))
		next := p.Next(p.with(func(cfg *config.Upstream) { cfg.Health.Fall = i%3 + 1 }))
		require.True(t, isResolved(next))
		stopNext := start(next)
		current.Store(next)
		stop()
		p, stop = next, stopNext
	}
	close(end)
	traffic.Wait()
	stop()
	running.Wait()

	open, counted := slices.Concat(held...), int64(0)
	for _, server := range p.Status().Servers {
		counted += server.Connections
	}
	assert.EqualValues(t, len(open), counted, "every connection of every generation")
	for _, e := range open {
		e.Closed()
	}
	for _, server := range p.Status().Servers {
		assert.Zero(t, server.Connections, server.Address)
	}
}

// load is one thread of clients of the pool of the time, until end. Some of its
// connections last for generations; it returns those that are open.
func load(current *atomic.Pointer[Pool], thread int, end <-chan struct{}) (open []*Endpoint) {
	for i := thread; ; i++ {
		select {
		case <-end:
			return open
		default:
		}
		p, now := current.Load(), int64(i)*int64(time.Millisecond)
		var tried Tried
		for e := p.Pick(netip.Addr{}, &tried, now); e != nil; e = p.Pick(netip.Addr{}, &tried, now) {
			e.Opened()
			if i%3 > 0 {
				e.Succeeded()
				open = append(open, e)
				break
			}
			e.Failed(errRefused, now)
			e.Closed()
		}
		if len(open) > 100 {
			open[0].Closed()
			open = open[1:]
		}
	}
}

func TestAnEternalConnectionKeepsNoGenerationInMemory(t *testing.T) {
	t.Parallel()
	p := newPool(config.RoundRobin, append(hosts(2), tcp("db.test", 80))...)
	var z zone
	z.set(nil, "127.0.0.1")
	p.lookUp = z.lookUp
	eternal := p.endpoints()[0]
	eternal.Opened()
	var former []weak.Pointer[Pool]
	for i := range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { p.Run(ctx) })
		<-p.Resolved()
		next := p.Next(p.with(func(cfg *config.Upstream) { cfg.ConnectRetry = time.Duration(i) }))
		cancel()
		running.Wait()
		former = append(former, weak.Make(p))
		p = next
	}
	require.Eventually(t, func() bool {
		runtime.GC()
		return !slices.ContainsFunc(former, func(p weak.Pointer[Pool]) bool { return p.Value() != nil })
	}, patience, 10*time.Millisecond)
	assert.EqualValues(t, 1, p.Status().Servers[0].Connections)
	eternal.Closed()
	assert.Zero(t, p.Status().Servers[0].Connections)
}
