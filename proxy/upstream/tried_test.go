package upstream

import (
	"net/netip"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/proxy/config"
)

func TestTriedIsSmall(t *testing.T) {
	t.Parallel()
	assert.LessOrEqual(t, unsafe.Sizeof(Tried{}), uintptr(16))
}

func TestUpTo64EndpointsAreToldApart(t *testing.T) {
	t.Parallel()
	p := newPool(config.RoundRobin, hosts(64)...)
	var tried Tried
	for i, e := range p.endpoints() {
		require.False(t, tried.has(e), "endpoint %d shares a slot", i)
		tried.add(e)
	}
	assert.Nil(t, p.Pick(netip.Addr{}, &tried, 0))
	tried.Reset()
	assert.NotNil(t, p.Pick(netip.Addr{}, &tried, 0))
}

func TestMoreThan64EndpointsMakeRoundsOf64Attempts(t *testing.T) {
	t.Parallel()
	p := newPool(config.RoundRobin, hosts(150)...)
	seen := make(map[*Endpoint]int)
	for range 20 {
		var tried Tried
		attempts := 0
		for e := p.Pick(netip.Addr{}, &tried, 0); e != nil; e = p.Pick(netip.Addr{}, &tried, 0) {
			seen[e]++
			attempts++
		}
		require.Equal(t, 64, attempts)
	}
	assert.Len(t, seen, 150, "each gets its turn in some round")
}

func TestAFreedSlotRestsBeforeItIsUsedAgain(t *testing.T) {
	t.Parallel()
	var s slots
	first := s.take()
	s.release(first)
	for range maxSlots - 1 {
		assert.NotEqual(t, first, s.take())
	}
	assert.Equal(t, first, s.take())
}
