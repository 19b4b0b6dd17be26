package keeper_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore/keeper"
)

func TestWhatIsStoredComesBackHoweverTheServiceEnds(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{StoreMax: 5, StopTimeout: patience})
	s := h.next()
	assert.Empty(t, s.Names)
	s.push("a", 1)
	s.push("b", 2, "FDPOLL=0")
	for _, end := range []func(){
		func() { s.kill(unix.SIGKILL) }, // with messages that nobody has read, perhaps
		func() { s.exit(0) },
		func() { s.kill(unix.SIGTERM) },
	} {
		end()
		s = h.next()
		assert.Equal(t, []string{"b", "b", "a"}, s.Names, "last first")
		assert.Equal(t, []int{0, 1, 2, 3, 4, 5}, s.Inherited)
	}
	s.say("FDSTOREREMOVE=1", "FDNAME=b")
	s.kill(unix.SIGKILL)
	s = h.next()
	assert.Equal(t, []string{"a"}, s.Names)
	h.stop()
}

func TestWhatWasSentBeforeAKillCounts(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{StoreMax: 1000, StopTimeout: patience})
	want := 0
	s := h.next()
	for range 5 {
		h.signal(unix.SIGSTOP) // it reads nothing
		for range 3 {
			s.push("x", 10)
			want += 10
		}
		s.kill(unix.SIGKILL)
		h.signal(unix.SIGCONT)
		s = h.next()
		require.Len(t, s.Names, want)
		s.say("READY=1")
	}
	h.stop()
}

func TestWhatHasHungUpIsNotKeptUnlessItIsAskedFor(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{StoreMax: 5, StopTimeout: patience})
	s := h.next()
	s.do(request{Do: "push half", Lines: []string{"FDSTORE=1", "FDNAME=polled"}})
	s.do(request{Do: "push half", Lines: []string{"FDSTORE=1", "FDNAME=left alone", "FDPOLL=0"}})
	s.say("READY=1")
	s.exit(0)
	assert.Equal(t, []string{"left alone"}, h.next().Names)
	h.stop()
}

func TestAFullStoreDropsAndSaysSo(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{StoreMax: 2, StopTimeout: patience})
	s := h.next()
	s.push("x", 3)
	s.exit(0)
	s = h.next()
	assert.Equal(t, []string{"x", "x"}, s.Names)
	h.logs("the store is full", "count=1", "max=2")
	h.stop()
}

func TestThousandsAreKept(t *testing.T) {
	t.Parallel()
	const n = 3000
	h := live(t, keeper.Options{StoreMax: 4096, StopTimeout: patience})
	s := h.next()
	for i := range n / 200 {
		s.push(fmt.Sprintf("socket/%08x", i), 200, "FDPOLL=0")
	}
	for range 2 {
		s.kill(unix.SIGKILL)
		s = h.next()
		require.Len(t, s.Names, n)
		require.Len(t, s.Inherited, 3+n)
	}
	h.stop()
}

func TestNamesNeverGrowTooLongToStartTheNextProcess(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{StoreMax: 4096, StopTimeout: patience})
	s := h.next()
	long := strings.Repeat("x", 255)
	for range 6 {
		s.push(long, 100)
	}
	s.exit(0)
	s = h.next()
	assert.Len(t, s.Names, 127<<10/256)
	s.say("FDSTOREREMOVE=1", "FDNAME="+long)
	s.push("short", 1)
	s.exit(0)
	assert.Equal(t, []string{"short"}, h.next().Names)
	h.stop()
}
