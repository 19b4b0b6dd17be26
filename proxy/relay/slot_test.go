package relay

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAnAddressIsInASlotAsItWas(t *testing.T) {
	for _, text := range []string{"192.0.2.1:80", "[2001:db8::1]:443", "[fe80::1%3]:22", "[::ffff:192.0.2.1]:80"} {
		address := netip.MustParseAddrPort(text)
		var in slotAddr
		in.set(address)
		assert.Equal(t, address.String(), in.get().String())
		if address.Addr().Zone() == "" {
			assert.Zero(t, testing.AllocsPerRun(100, func() { in.set(address) }), text)
		}
	}
	var none slotAddr
	none.set(netip.AddrPort{})
	assert.Equal(t, slotAddr{}, none)
	assert.False(t, none.get().IsValid())
}
