package upstream

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/holdfast-proxy/holdfast/proxy/config"
)

var (
	errRefused = errors.New("connection refused")

	balances = []config.Balance{config.RoundRobin, config.LeastConnections, config.Random2, config.SourceHash}
)

// drawClient is an address, or the zero Addr of a Unix client.
func drawClient(t *rapid.T) netip.Addr {
	b := rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "client")
	client, _ := netip.AddrFromSlice(b)
	return client
}

// withHealth has health checks that nobody runs: tests record results.
func withHealth(balance config.Balance, n int) *Pool {
	p := newPool(balance, hosts(n)...)
	for _, e := range p.endpoints() {
		e.limits = limitsOf(&config.Health{Rise: 1, Fall: 1})
	}
	return p
}

func TestOneRoundTriesEachEndpointOnceTheBestFirst(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := withHealth(rapid.SampledFrom(balances).Draw(t, "balance"), rapid.IntRange(0, 64).Draw(t, "endpoints"))
		const now = 5e9
		for _, e := range p.endpoints() {
			e.record.penaltyEnd.Store(now + rapid.Int64Range(-1, 1).Draw(t, "penalty left"))
			if rapid.Bool().Draw(t, "down") {
				e.failed(errRefused)
			}
			e.record.connections.Store(int64(rapid.IntRange(0, 3).Draw(t, "connections")))
		}
		client := drawClient(t)
		var tried Tried
		var last grade
		seen := make(map[*Endpoint]bool)
		for e := p.Pick(client, &tried, now); e != nil; e = p.Pick(client, &tried, now) {
			require.False(t, seen[e], "%s twice", e)
			seen[e] = true
			require.GreaterOrEqual(t, e.grade(now), last, "a worse one came before")
			last = e.grade(now)
		}
		require.Len(t, seen, len(p.endpoints()))
	})
}

func TestRoundRobinIsFairAlsoBesideServersThatAreDown(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "endpoints")
		up := rapid.IntRange(1, n).Draw(t, "up")
		p := withHealth(config.RoundRobin, n)
		order := rapid.Permutation(p.endpoints()).Draw(t, "order")
		for _, e := range order[up:] {
			e.failed(errRefused)
		}
		const rounds = 3
		picks := make(map[*Endpoint]int)
		for range up * rounds {
			var tried Tried
			picks[p.Pick(netip.Addr{}, &tried, 0)]++
		}
		for _, e := range order[:up] {
			require.Equal(t, rounds, picks[e])
		}
	})
}

func TestLeastConnectionsTakesTheFewestAndEqualsTakeTurns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newPool(config.LeastConnections, hosts(rapid.IntRange(1, 20).Draw(t, "endpoints"))...)
		var fewest []*Endpoint
		for _, e := range p.endpoints() {
			n := rapid.IntRange(0, 3).Draw(t, "connections")
			e.record.connections.Store(int64(n))
			if n == 0 {
				fewest = append(fewest, e)
			}
		}
		picks := make(map[*Endpoint]int)
		for range 2 * len(fewest) {
			var tried Tried
			picks[p.Pick(netip.Addr{}, &tried, 0)]++
		}
		for _, e := range fewest {
			require.Equal(t, 2, picks[e])
		}
	})
}

func TestLeastConnectionsEvensOutDials(t *testing.T) {
	t.Parallel()
	p := newPool(config.LeastConnections, hosts(4)...)
	for range 4 * 25 {
		var tried Tried
		p.Pick(netip.Addr{}, &tried, 0).Opened()
	}
	for _, e := range p.endpoints() {
		assert.EqualValues(t, 25, e.record.connections.Load())
	}
}

func TestRandom2NeverTakesTheBusiestAndReachesAllOthers(t *testing.T) {
	t.Parallel()
	p := newPool(config.Random2, hosts(5)...)
	for i, e := range p.endpoints() {
		e.record.connections.Store(int64(i))
	}
	picks := make([]int, 5)
	for range 5000 {
		var tried Tried
		picks[p.Pick(netip.Addr{}, &tried, 0).record.connections.Load()]++
	}
	// Of the 20 ordered pairs number i is the lower one in 2 × (4 − i).
	for i, n := range picks {
		assert.InDelta(t, 5000*2*(4-i)/20, n, 250, "endpoint %d", i)
	}
	assert.Zero(t, picks[4])
}

// clients is n addresses that differ little, as those of one network do.
func clients(n int) []netip.Addr {
	var list []netip.Addr
	for i := range n {
		list = append(list, netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}))
	}
	return list
}

func placed(p *Pool, client netip.Addr) string {
	var tried Tried
	return p.Pick(client, &tried, 0).String()
}

func TestSourceHashMovesOnlyTheShareOfANewServer(t *testing.T) {
	t.Parallel()
	const n, servers = 10_000, 9
	before := newPool(config.SourceHash, hosts(servers)...)
	after := newPool(config.SourceHash, hosts(servers+1)...)
	added := after.endpoints()[servers].String()
	share := make(map[string]int)
	for _, client := range clients(n) {
		was, is := placed(before, client), placed(after, client)
		share[is]++
		if is != added {
			require.Equal(t, was, is, "moved between servers that did not change")
		}
	}
	require.Len(t, share, servers+1)
	for server, got := range share {
		assert.InDelta(t, n/(servers+1), got, 120, server) // four standard deviations
	}
}

func TestSourceHashGoesAsideWhileAServerIsDown(t *testing.T) {
	t.Parallel()
	p := withHealth(config.SourceHash, 5)
	e := p.endpoints()[2]
	before := make(map[netip.Addr]string)
	for _, client := range clients(200) {
		before[client] = placed(p, client)
	}
	e.failed(errRefused)
	aside := make(map[string]int)
	for client, was := range before {
		is := placed(p, client)
		if was == e.String() {
			aside[is]++
		} else {
			assert.Equal(t, was, is)
		}
	}
	assert.Len(t, aside, 4, "its clients spread over all others")
	e.passed()
	for client, was := range before {
		assert.Equal(t, was, placed(p, client))
	}
}

func TestSourceHashIsTheSameInEveryProcess(t *testing.T) {
	t.Parallel()
	p := newPool(config.SourceHash, hosts(5)...)
	for client, want := range map[string]string{
		"10.0.0.1":        "tcp 192.0.2.3:80",
		"::ffff:10.0.0.1": "tcp 192.0.2.3:80",
		"2001:db8::1":     "tcp 192.0.2.1:80",
	} {
		assert.Equal(t, want, placed(p, addr(client)), client)
	}
}

func TestSourceHashGivesUnixClientsTurns(t *testing.T) {
	t.Parallel()
	p := newPool(config.SourceHash, hosts(3)...)
	seen := make(map[string]bool)
	for range 3 {
		seen[placed(p, netip.Addr{})] = true
	}
	assert.Len(t, seen, 3)
}
