package relay

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A status that is asked for during a restore counts the generations of each socket, and
// forgets those that have no connection.
func TestANoteStaysUntilTheConnectionsOfItsGenerationAreRestored(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{vault: newShelf(t, 10)}, b.address)
	u := r.relay.useOf(Use{r.socket, r.other(7, nil)})
	r.socket.Generations()
	assert.NotEqual(t, uint32(noNote), u.note.Load())
	u.loops.Add(-1) // they are restored, or there were none
	r.socket.Generations()
	assert.Equal(t, uint32(noNote), u.note.Load())
}
