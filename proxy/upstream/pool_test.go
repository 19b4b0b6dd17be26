package upstream

import (
	"context"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

func TestLiteralAddressesCanBePickedBeforeRun(t *testing.T) {
	t.Parallel()
	p := newPool(config.RoundRobin, tcp("192.0.2.1", 80), tcp("2001:db8::1", 80), unixPath("@x"))
	<-p.Resolved()
	assert.Equal(t, "app", p.Name())
	assert.Len(t, p.Config().Servers, 3)
	var got []string
	var tried Tried
	for e := p.Pick(netip.Addr{}, &tried, 0); e != nil; e = p.Pick(netip.Addr{}, &tried, 0) {
		got = append(got, e.label+" = "+e.String())
	}
	assert.ElementsMatch(t, []string{
		"upstream app: server tcp://192.0.2.1:80 = tcp 192.0.2.1:80",
		"upstream app: server tcp://[2001:db8::1]:80 = tcp [2001:db8::1]:80",
		"upstream app: server unix://@x = unix @x",
	}, got)
}

func TestFamilyForetellsThePick(t *testing.T) {
	t.Parallel()
	for _, balance := range []config.Balance{config.RoundRobin, config.LeastConnections} {
		p := newPool(balance, tcp("192.0.2.1", 80), tcp("2001:db8::1", 80), unixPath("/x"))
		for range 7 {
			family := p.Family()
			var tried Tried
			e := p.Pick(netip.Addr{}, &tried, 0)
			assert.Equal(t, family, e.Family(), balance)
			e.Opened()
		}
	}
	assert.Equal(t, unix.AF_INET6, newPool(config.SourceHash, tcp("::1", 1), tcp("::1", 2)).Family())
	assert.Zero(t, newPool(config.RoundRobin, tcp("db.test", 1)).Family(), "not looked up")
}

func TestLeastConnectionsForetellsTheFirstOfEquals(t *testing.T) {
	t.Parallel()
	p := newPool(config.LeastConnections, tcp("192.0.2.1", 80), tcp("2001:db8::1", 80))
	p.endpoints()[0].Opened()
	assert.Equal(t, unix.AF_INET6, p.Family())
}

func TestStatusCountsAndTellsTheLastError(t *testing.T) {
	t.Parallel()
	p := newPool(config.RoundRobin, tcp("192.0.2.1", 80), unixPath("/x"), tcp("db.test", 5432))
	first := p.endpoints()[0]
	first.Opened()
	first.Opened()
	first.Closed()
	first.Failed(unix.ECONNREFUSED, 0)
	assert.Equal(t, status.Upstream{Name: "app", Servers: []status.Server{
		{Address: "tcp://192.0.2.1:80", Healthy: true, Connections: 1, LastError: "connection refused"},
		{Address: "unix:///x", Healthy: true},
		{Address: "tcp://db.test:5432", Healthy: true},
	}}, p.Status())
	first.Succeeded()
	assert.Empty(t, p.Status().Servers[0].LastError)
}

func TestReasonLeavesOutWhatTheReaderKnows(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	refused, _ := unixTarget("/does/not/exist")
	require.Equal(t, "no such file or directory", reason(probe(context.Background(), refused, patience)))
	assert.Equal(t, "timed out", reason(ctx.Err()))
	assert.Equal(t, "odd", reason(errOdd{}))
}

type errOdd struct{}

func (errOdd) Error() string { return "odd" }
