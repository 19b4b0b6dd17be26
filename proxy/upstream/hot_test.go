package upstream

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/proxy/config"
)

var sink int

// connection is all calls for one connection that is dialled at the first try.
func connection(p *Pool, client netip.Addr) {
	var tried Tried
	sink = p.Family()
	e := p.Pick(client, &tried, 1)
	e.Opened()
	e.Succeeded()
	e.Closed()
}

func mixedServers() []config.Address {
	return append(hosts(5), tcp("2001:db8::1", 80), unixPath("/run/x.sock"))
}

func TestAConnectionAllocatesNothing(t *testing.T) {
	client := addr("192.0.2.200")
	for _, balance := range balances {
		p := newPool(balance, mixedServers()...)
		n := len(p.endpoints())
		assert.Zero(t, testing.AllocsPerRun(1000, func() { connection(p, client) }), balance)
		assert.Zero(t, testing.AllocsPerRun(1000, func() {
			var tried Tried
			for range n {
				p.Pick(client, &tried, 1)
			}
		}), "%s: fail over", balance)
	}
}

func BenchmarkConnection(b *testing.B) {
	client := addr("192.0.2.200")
	for _, balance := range balances {
		b.Run(string(balance), func(b *testing.B) {
			p := newPool(balance, mixedServers()...)
			b.ReportAllocs()
			for b.Loop() {
				connection(p, client)
			}
		})
	}
}

func TestPickWhileAddressesMoveAndHealthChanges(t *testing.T) {
	t.Parallel()
	for _, balance := range balances {
		t.Run(string(balance), func(t *testing.T) {
			t.Parallel()
			p := newPool(balance, append(hosts(3), tcp("db.test", 80))...)
			var round atomic.Int64
			p.lookUp = func(context.Context, string) ([]netip.Addr, error) {
				n := byte(round.Add(1))
				return []netip.Addr{netip.AddrFrom4([4]byte{198, 51, 100, n % 3}), netip.AddrFrom4([4]byte{198, 51, 100, 9})}, nil
			}
			for _, e := range p.endpoints() {
				e.limits = limitsOf(&config.Health{Rise: 1, Fall: 2})
			}
			var wg sync.WaitGroup
			for thread := range 4 {
				wg.Go(func() {
					client := netip.AddrFrom4([4]byte{10, 0, 0, byte(thread)})
					for i := range 2000 {
						var tried Tried
						now := int64(i) * int64(time.Millisecond)
						for e := p.Pick(client, &tried, now); e != nil; e = p.Pick(client, &tried, now) {
							e.Opened()
							if (i+thread)%3 == 0 {
								e.Failed(errRefused, now)
							} else {
								e.Succeeded()
							}
							e.Closed()
						}
						p.Family()
					}
				})
			}
			for range 200 {
				p.servers[3].refresh(context.Background())
				p.Status()
			}
			wg.Wait()
			for _, server := range p.Status().Servers {
				require.Zero(t, server.Connections)
			}
		})
	}
}
