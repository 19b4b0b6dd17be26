package upstream

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

func checked(servers ...config.Address) config.Upstream {
	return config.Upstream{
		Name: "app", Servers: servers, Balance: config.RoundRobin,
		Health: &config.Health{Interval: time.Hour, Timeout: time.Second, Rise: 3, Fall: 2},
	}
}

func TestAServerThatWasDownIsTriedLastByTheNextProcess(t *testing.T) {
	t.Parallel()
	former := New(checked(hosts(3)...), quiet, nil)
	assert.Empty(t, former.Down())
	for range 2 {
		former.endpoints()[1].Failed(unix.ETIMEDOUT, 0)
	}
	told := former.Down()
	assert.Equal(t, []Down{{Upstream: "app", Server: "tcp://192.0.2.2:80", Address: "tcp 192.0.2.2:80", Error: "connection timed out"}}, told)

	p := New(checked(hosts(3)...), quiet, told)
	assert.Equal(t, []status.Server{
		{Address: "tcp://192.0.2.1:80", Healthy: true},
		{Address: "tcp://192.0.2.2:80", LastError: "connection timed out"},
		{Address: "tcp://192.0.2.3:80", Healthy: true},
	}, p.Status().Servers)
	for range 10 {
		var tried Tried
		assert.NotEqual(t, "tcp 192.0.2.2:80", p.Pick(netip.Addr{}, &tried, 0).String())
	}
	assert.Equal(t, told, p.Down(), "and by the one after that")
}

// How many times in a row it had worked nobody has told, and it may not be down for
// longer than in the process that is gone.
func TestAServerThatWasDownIsUpAtOnceWhenItWorks(t *testing.T) {
	t.Parallel()
	told := []Down{{Upstream: "app", Server: "tcp://192.0.2.1:80", Address: "tcp 192.0.2.1:80"}}
	p := New(checked(hosts(2)...), quiet, told)
	e := p.endpoints()[0]
	require.True(t, e.down())
	e.Succeeded()
	assert.False(t, e.down())
	assert.Empty(t, p.Down())

	p = New(checked(hosts(2)...), quiet, told)
	e = p.endpoints()[0]
	e.Failed(errRefused, 0) // this process has seen it itself
	for range 2 {
		e.Succeeded()
		assert.True(t, e.down())
	}
	e.Succeeded()
	assert.False(t, e.down())
}

func TestWhatIsToldOfOtherServersIsPassedOver(t *testing.T) {
	t.Parallel()
	told := []Down{
		{Upstream: "other", Server: "tcp://192.0.2.1:80", Address: "tcp 192.0.2.1:80"},
		{Upstream: "app", Server: "tcp://192.0.2.9:80", Address: "tcp 192.0.2.9:80"},
		{Upstream: "app", Server: "tcp://192.0.2.2:80", Address: "tcp 192.0.2.9:80"},
	}
	p := New(checked(hosts(2)...), quiet, told)
	assert.Empty(t, p.Down())
	assert.Equal(t, New(checked(hosts(2)...), quiet, nil).Status(), p.Status())
}

func TestWithoutHealthChecksNoServerBeginsDown(t *testing.T) {
	t.Parallel()
	cfg := checked(hosts(1)...)
	cfg.Health = nil
	p := New(cfg, quiet, []Down{{Upstream: "app", Server: "tcp://192.0.2.1:80", Address: "tcp 192.0.2.1:80", Error: "connection refused"}})
	assert.Empty(t, p.Down())
	assert.Equal(t, []status.Server{{Address: "tcp://192.0.2.1:80", Healthy: true}}, p.Status().Servers)
}

func TestAnAddressThatWasDownIsKnownFromTheFirstLookUp(t *testing.T) {
	var z zone
	z.set(errNoHost)
	synctest.Test(t, func(t *testing.T) {
		told := []Down{{Upstream: "app", Server: "tcp://db.test:5432", Address: "tcp 192.0.2.1:5432", Error: "timed out"}}
		cfg := checked(tcp("db.test", 5432))
		p := New(cfg, quiet, told)
		p.lookUp = z.lookUp
		assert.Equal(t, told, p.Down(), "it is not forgotten before")
		p.servers[0].refresh(t.Context())
		assert.Equal(t, told, p.Down())

		z.set(nil, "192.0.2.1", "192.0.2.2")
		p.servers[0].refresh(t.Context())
		assert.True(t, p.endpoints()[0].down())
		assert.False(t, p.endpoints()[1].down())
		assert.Equal(t, told, p.Down())

		p = New(cfg, quiet, told)
		p.lookUp = z.lookUp
		z.set(nil, "192.0.2.2")
		p.servers[0].refresh(t.Context())
		assert.Empty(t, p.Down())
		z.set(nil, "192.0.2.1")
		p.servers[0].refresh(t.Context())
		assert.Empty(t, p.Down(), "that was long ago")
	})
}

func TestWhoAsksHearsOfEachChangeOfHealth(t *testing.T) {
	t.Parallel()
	var book logBook
	l := listen(t, "tcp", "127.0.0.1:0")
	cfg := checked(addressOf(l))
	cfg.Health.Interval = 10 * time.Millisecond
	p := New(cfg, book.logger(), []Down{{Upstream: "app", Server: addressOf(l).String(), Address: "tcp " + l.Addr().String(), Error: "timed out"}})
	heard := make(chan []Down, 10)
	p.OnHealth = func() { heard <- p.Down() }
	run(t, p)
	hear := func() []Down {
		select {
		case now := <-heard:
			return now
		case <-time.After(patience):
			require.Fail(t, "nothing is heard")
			return nil
		}
	}
	assert.Empty(t, hear(), "it is back")
	assert.Equal(t, 1, book.count(" is up"))
	require.NoError(t, l.Close())
	assert.Len(t, hear(), 1)
}
