package relay

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// As when the kernel has no memory for a later page of a pipe. What it has taken by then
// must not be the next connection's.
func TestAPipeThatTakesAPartIsNobodysAfter(t *testing.T) {
	received := make(chan []byte, 2)
	b := newBackend(t, "unix", func(c net.Conn) {
		all, _ := io.ReadAll(c)
		received <- all
	})
	r := newRig(t, setup{vault: newShelf(t, 20), loops: 1}, b.address)
	r.eachLoop(func(l *loop) {
		l.shared.pipes[wide].most = 0
		one := l.shared.pipes[slim].get()
		_, err := unix.FcntlInt(uintptr(one.fd), unix.F_SETPIPE_SZ, 4<<10)
		assert.NoError(t, err)
		l.shared.pipes[slim].put(one)
	})
	for _, letter := range []string{"a", "b"} {
		sent := bytes.Repeat([]byte(letter), slimSize)
		c := r.dial()
		_, err := c.Write(sent)
		require.NoError(t, err)
		closeWrite(t, c)
		assert.True(t, bytes.Equal(sent, <-received), "what it has sent, and nothing else")
	}
	r.eachLoop(func(l *loop) {
		for _, one := range l.shared.pipes[slim].free {
			holds, err := pending(one.fd)
			assert.NoError(t, err)
			assert.Zero(t, holds, "bytes that somebody will be given")
		}
	})
}

func TestPipesForSpeedLeaveSomeToThoseThatNeedThem(t *testing.T) {
	pool := pipePool{most: 4, fast: 2, ceiling: func() int { return 1 << 20 }}
	defer pool.close()
	var taken []pipe
	take := func(get func() pipe, there bool) {
		one := get()
		require.Equal(t, there, one.fd >= 0)
		if there {
			taken = append(taken, one)
		}
	}
	take(pool.getForSpeed, true)
	take(pool.getForSpeed, true)
	take(pool.getForSpeed, false)
	take(pool.get, true)
	take(pool.get, true)
	take(pool.get, false)
	for _, one := range taken[:3] {
		pool.put(one)
	}
	take(pool.getForSpeed, true)
	take(pool.getForSpeed, false)
	for _, one := range taken[3:] {
		pool.put(one)
	}
	assert.Equal(t, 4, pool.made)
}

// To ask the kernel in vain for each read costs five system calls.
func TestPipesThatCannotBeHadAreAskedForAgainAfterAWhile(t *testing.T) {
	pool := pipePool{most: 1, ceiling: func() int { return 1 << 20 }}
	defer pool.close()
	refused := make(chan pipe)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with its filter
		assert.NoError(t, refusePipes(unix.ENOMEM))
		refused <- pool.get()
	}()
	assert.Equal(t, noPipe, <-refused)
	assert.Equal(t, noPipe, pool.get(), "not at once")
	assert.True(t, pool.idle(), "there is something to do")
	pool.trim()
	one := pool.get()
	require.GreaterOrEqual(t, one.fd, int32(0))
	pool.put(one)
}

// refusePipes has the kernel give this thread none.
func refusePipes(errno unix.Errno) error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PIPE2, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}
