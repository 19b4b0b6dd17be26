package relay

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// resetting counts the sockets of connections that a kill resets.
func (r *rig) resetting() (n int) {
	r.eachPair(func(p *pair) {
		for i := range p.side {
			l, err := unix.GetsockoptLinger(int(p.side[i].fd), unix.SOL_SOCKET, unix.SO_LINGER)
			if err == nil && l.Onoff == 1 && l.Linger == 0 {
				n++
			}
		}
	})
	return n
}

func TestWhoIsResetAtDeath(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{loops: 1, vault: newShelf(t, 2)}, b.address)
	r.clients(2)
	assert.Zero(t, r.resetting(), "they are kept")
	r.relay.ResetAtDeath(true)
	r.clients(1)
	assert.Equal(t, 6, r.resetting())
	r.relay.ResetAtDeath(false)
	assert.Equal(t, 2, r.resetting(), "who is not kept")
}

// The kernel would drop what is not sent yet.
func TestWhoIsResetAtDeathEndsInOrderBefore(t *testing.T) {
	const size = 32 << 20
	b := newBackend(t, "tcp", func(c net.Conn) {
		_, _ = c.Write(make([]byte, size))
		_ = c.Close()
	})
	for name, vault := range map[string]*shelf{"kept": newShelf(t, 10), "without a vault": nil} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, setup{vault: vault}, b.address)
			r.relay.ResetAtDeath(true)
			c := r.dial()
			closeWrite(t, c)
			r.awaitStall()
			require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
			n, err := io.Copy(io.Discard, struct{ io.Reader }{c})
			require.NoError(t, err)
			assert.EqualValues(t, size, n)
			assert.Equal(t, Closed, r.end().Reason)
		})
	}
}
