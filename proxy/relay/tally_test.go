package relay

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheCountOfASocketGoesOnFromProcessToProcess(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	s := newShelf(t, 100)
	r := newRig(t, setup{vault: s}, b.address)
	for round := range 4 {
		r.clients(3)
		assert.EqualValues(t, 3*(round+1), r.socket.Accepted())
		assert.Equal(t, map[uint64][]int64{1: {int64(3 * (round + 1))}}, s.tallies(), "there for whoever comes after a kill")
		r.successor(s)
		assert.EqualValues(t, 3*(round+1), r.socket.Accepted())
	}
}

func TestGenerationsOfASocketHaveOneCount(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	s := newShelf(t, 100)
	r := newRig(t, setup{vault: s}, b.address)
	for g := range uint64(10) {
		r.clients(1)
		r.relay.Change(r.socket, r.other(g+2, nil))
	}
	assert.EqualValues(t, 10, r.socket.Accepted())
	assert.Equal(t, map[uint64][]int64{1: {10}}, s.tallies())
}

// A replacement has no vault while the original has it.
func TestWhoWasAcceptedBeforeThereWasAVaultCounts(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	s := newShelf(t, 100)
	r := newRig(t, setup{}, b.address)
	r.clients(2)
	number, ok := s.Note([]byte(`{"kind":"socket","socket":1}`))
	require.True(t, ok)
	s.Counter(number).Store(40)
	r.relay.Attach([]Vault{s, s}, s.common, s.left())
	assert.EqualValues(t, 42, r.socket.Accepted())
	assert.Equal(t, map[uint64][]int64{1: {42}}, s.tallies())
}

func TestAnOriginalThatGoesOnCountsNobodyTwice(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	s := newShelf(t, 100)
	r := newRig(t, setup{vault: s}, b.address)
	r.clients(3)
	<-r.relay.Release(r.socket, false)
	r.relay.LetGo()
	r.relay.Serve(r.socket)
	r.clients(2)
	assert.EqualValues(t, 5, r.socket.Accepted())
	assert.Equal(t, map[uint64][]int64{1: {3}}, s.tallies(), "it is another process's to go on")
	r.relay.Attach([]Vault{s, s}, s.common, s.left())
	assert.EqualValues(t, 5, r.socket.Accepted())
	assert.Equal(t, map[uint64][]int64{1: {5}}, s.tallies())
}

// The one that was let go could not be read.
func TestTheCountGoesOnInANewVault(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	s, another := newShelf(t, 100), newShelf(t, 100)
	r := newRig(t, setup{vault: s}, b.address)
	r.clients(3)
	r.letGo()
	r.relay.Serve(r.socket)
	r.clients(2)
	r.relay.Attach([]Vault{another, another}, another.common, nil)
	assert.EqualValues(t, 5, r.socket.Accepted())
	assert.Equal(t, map[uint64][]int64{1: {5}}, another.tallies())
}

func TestWithoutRoomForItsNoteASocketIsCountedInThisProcess(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	s := newShelf(t, 100)
	s.full = true
	r := newRig(t, setup{vault: s}, b.address)
	r.clients(3)
	assert.EqualValues(t, 3, r.socket.Accepted())
	s.mu.Lock()
	s.full = false
	s.mu.Unlock()
	eventually(t, "there is room, and all are told of", func() bool { return len(s.tallies()[1]) == 1 && s.tallies()[1][0] == 3 })
}

func TestTheCountOfASocketThatIsGoneIsDropped(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	s := newShelf(t, 100)
	r := newRig(t, setup{vault: s}, b.address)
	_, ok := s.Note([]byte(`{"kind":"socket","socket":2}`))
	require.True(t, ok)
	r.successor(s)
	assert.Equal(t, map[uint64][]int64{1: {0}}, s.tallies(), "of one that another process had")

	<-r.relay.Release(r.socket, false)
	r.relay.Forget(r.socket)
	assert.Empty(t, s.tallies())
	assert.Empty(t, s.left())
}

func TestNotesOfAKindThatIsNotKnownAreLeftAlone(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	s := newShelf(t, 100)
	r := newRig(t, setup{vault: s}, b.address)
	number, ok := s.Note([]byte(`{"kind":"flow","socket":1,"later":true}`))
	require.True(t, ok)
	r.successor(s)
	assert.Contains(t, s.left(), number)
}

func TestTwoNotesOfOneSocketAreAddedUp(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	s := newShelf(t, 100)
	r := newRig(t, setup{}, b.address)
	for range 2 { // one drained, and the other one was in service again
		number, ok := s.Note([]byte(`{"kind":"socket","socket":1}`))
		require.True(t, ok)
		s.Counter(number).Store(20)
	}
	r.relay.Attach([]Vault{s, s}, s.common, s.left())
	assert.Equal(t, map[uint64][]int64{1: {40}}, s.tallies())
}

// killed is a shelf that looks at what a kill would leave before and after each note is
// dropped.
type killed struct {
	*shelf
	left []int64 // the counts of all sockets
}

func (k *killed) DropNote(number uint32) {
	k.look()
	k.shelf.DropNote(number)
	k.look()
}

func (k *killed) look() {
	var sum int64
	for _, counts := range k.tallies() {
		for _, n := range counts {
			sum += n
		}
	}
	k.left = append(k.left, sum)
}

func TestAKillWhileTwoNotesOfOneSocketAreAddedUpCountsNobodyTwice(t *testing.T) {
	s := &killed{shelf: newShelf(t, 10)}
	for range 2 {
		number, ok := s.Note([]byte(`{"kind":"socket","socket":1}`))
		require.True(t, ok)
		s.Counter(number).Store(20)
	}
	r := &Relay{tallies: newTallies()}
	r.findTallies(s, s.shelf.left())
	require.Len(t, s.left, 2)
	for _, sum := range s.left {
		assert.LessOrEqual(t, sum, int64(40))
	}
	assert.Equal(t, map[uint64][]int64{1: {40}}, s.tallies())
}

func TestNoClientIsMissingInACountThatSeveralLoopsKeep(t *testing.T) {
	const each = 10000
	var c tally
	kept := new(atomic.Int64)
	kept.Store(100)
	var loops sync.WaitGroup
	for range 4 {
		loops.Go(func() {
			for range each {
				c.add()
			}
		})
	}
	c.goOn(kept)
	loops.Wait()
	assert.EqualValues(t, 4*each+100, kept.Load())
	assert.EqualValues(t, 4*each+100, c.clients.Load())
}
