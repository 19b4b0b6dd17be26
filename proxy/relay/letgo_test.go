package relay

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A status that is asked for meanwhile forgets generations that have no connection here.
func TestWhatIsNotedOfAGenerationStaysWhileItsConnectionsAreLetGo(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	s := newShelf(t, 1000)
	r := newRig(t, setup{vault: s}, b.address)
	r.clients(1)
	r.relay.Change(r.socket, r.other(2, nil))
	r.clients(300) // letting go takes a while
	require.NoError(t, r.relay.Turn(t.Context()))
	noted := s.left()
	require.Len(t, noted, 3, "two generations, and the socket")
	<-r.relay.Release(r.socket, false)

	var over atomic.Bool
	var asking sync.WaitGroup
	asking.Go(func() {
		for !over.Load() {
			r.socket.Generations()
		}
	})
	r.relay.LetGo()
	over.Store(true)
	asking.Wait()
	assert.Equal(t, noted, s.left())
}
