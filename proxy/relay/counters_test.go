package relay

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestACounterThatIsUsedUpTellsNothing(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	fd := int32(fds[0])
	_, known := counted(fd)
	assert.False(t, known, "it was never set")
	setCounter(fd)
	_, err = unix.Write(fds[1], make([]byte, 100))
	require.NoError(t, err)
	read := func(bytes int) {
		n, err := unix.Read(fds[0], make([]byte, bytes))
		require.NoError(t, err)
		require.Equal(t, bytes, n)
	}
	read(40)
	n, known := counted(fd)
	assert.True(t, known)
	assert.EqualValues(t, 40, n)
	setInt(fd, unix.SOL_SOCKET, unix.SO_PEEK_OFF, 60)
	read(60)
	_, known = counted(fd)
	assert.False(t, known, "what was read beyond its end was not counted")
}

// A stream of any length goes on after any number of counters.
func TestACounterIsSetAnewBeforeItIsUsedUp(t *testing.T) {
	most := MostCounted
	t.Cleanup(func() { MostCounted = most }) // when the relay is gone
	MostCounted = 1000
	b := newBackend(t, "tcp", echo)
	s := newShelf(t, 10)
	r := newRig(t, setup{network: "unix", vault: s}, b.address)
	c := r.dial()
	say := func() {
		text := make([]byte, 700)
		_, err := c.Write(text)
		require.NoError(t, err)
		_, err = io.ReadFull(c, text)
		require.NoError(t, err)
	}
	for range 5 {
		say()
	}
	r.letGo()
	var from int64
	for number := range s.kept {
		from = max(from, slotIn(s.at(number)).flow[client].zero)
	}
	assert.Positive(t, from, "the position at which it was set last")
	require.Equal(t, Restored{Connections: 1}, r.successor(s))
	say()
}
