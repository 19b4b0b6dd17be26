package relay

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDescriptorsThatAreReservedAreNotForThoseWhoCome(t *testing.T) {
	b := newBackend(t, "tcp", func(c net.Conn) { echo(c) })
	r := newRig(t, setup{loops: 1}, b.address)
	before := r.dial()
	require.NoError(t, ping(t, before))
	r.relay.Reserve(r.relay.ceiling() - openDescriptors(t)) // or one less
	var waiting []net.Conn
	for range 20 {
		waiting = append(waiting, r.dial())
	}
	eventually(t, "accepting pauses", r.socket.Paused)
	assert.Less(t, r.relay.Stats().Active, int64(20))
	require.NoError(t, ping(t, before), "who was there goes on")
	r.relay.Reserve(0)
	for _, c := range waiting {
		require.NoError(t, ping(t, c))
	}
}
