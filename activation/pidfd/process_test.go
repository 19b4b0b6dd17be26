package pidfd_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/pidfd"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// sleeper is a process of no interest.
func sleeper(t *testing.T) *child {
	t.Helper()
	return start(t, exec.Command("sleep", "3600"))
}

func TestOpenSaysWhatTheNumberIs(t *testing.T) {
	gone := sleeper(t)
	gone.kill()
	for _, tt := range []struct {
		number int
		want   error
		text   string
	}{
		{gone.Process.Pid, unix.ESRCH, "no such process"},
		{0, unix.EINVAL, "invalid argument"},
		{-1, unix.EINVAL, "invalid argument"},
	} {
		_, err := pidfd.Open(tt.number)
		require.ErrorIs(t, err, tt.want)
		assert.EqualError(t, err, fmt.Sprintf("open process %d: %s", tt.number, tt.text))
	}

	_, err := pidfd.Open(thread(t))
	assert.ErrorContains(t, err, "it is a thread of another process")
}

// thread is a thread of this process that is not the main one.
func thread(t *testing.T) int {
	t.Helper()
	tids, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	for _, tid := range tids {
		if n, err := strconv.Atoi(tid.Name()); err == nil && n != os.Getpid() {
			return n
		}
	}
	t.Fatal("there is no other thread")
	return 0
}

func TestAProcessHasItsName(t *testing.T) {
	s := sleeper(t)
	p := open(t, s.Process.Pid)
	assert.Equal(t, s.Process.Pid, p.PID())
	assert.Equal(t, fmt.Sprintf("process %d (sleep)", p.PID()), p.String())
	s.kill()
	assert.Equal(t, fmt.Sprintf("process %d (sleep)", p.PID()), p.String())
}

func TestWaitIsForTheEnd(t *testing.T) {
	s := sleeper(t)
	p := open(t, s.Process.Pid)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, p.Wait(ctx), context.DeadlineExceeded)

	ended := make(chan error)
	go func() { ended <- p.Wait(t.Context()) }()
	require.NoError(t, p.Signal(unix.SIGTERM))
	require.NoError(t, <-ended)
	require.NoError(t, p.Wait(t.Context()), "it has ended already, and nobody has reaped it")
	over, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Minute))
	defer cancel()
	require.NoError(t, p.Wait(over), "that is seen, also by who was stopped meanwhile")

	_, err := p.Get(0)
	require.ErrorIs(t, err, pidfd.ErrExited)
	s.kill() // reaps
	require.NoError(t, p.Wait(t.Context()))
	err = p.Signal(unix.SIGTERM)
	require.ErrorIs(t, err, pidfd.ErrExited)
	assert.EqualError(t, err, "send SIGTERM to "+p.String()+": it has exited")
}

func TestWaitCanBeCalledOff(t *testing.T) {
	p := open(t, sleeper(t).Process.Pid)
	ctx, cancel := context.WithCancel(t.Context())
	called := make(chan error)
	go func() { called <- p.Wait(ctx) }()
	cancel()
	require.ErrorIs(t, <-called, context.Canceled)
}

// The kernel counts PIDs up. Who may set its counter gets one again.
func TestAPIDThatIsUsedAgainIsAnotherProcess(t *testing.T) {
	for range 50 {
		s := sleeper(t)
		p := open(t, s.Process.Pid)
		s.kill()
		err := os.WriteFile("/proc/sys/kernel/ns_last_pid", strconv.AppendInt(nil, int64(p.PID()-1), 10), 0)
		if err != nil {
			t.Skip("the next PID cannot be chosen here: ", err)
		}
		again := sleeper(t)
		if again.Process.Pid != p.PID() {
			continue // another program was quicker
		}

		require.ErrorIs(t, p.Signal(unix.SIGKILL), pidfd.ErrExited)
		_, err = p.Get(0)
		require.ErrorIs(t, err, pidfd.ErrExited)
		_, err = p.ListeningSockets(t.Context())
		require.ErrorIs(t, err, pidfd.ErrExited)
		require.NoError(t, p.Wait(t.Context()))
		require.NoError(t, again.Process.Signal(unix.Signal(0)), "the other one lives")
		return
	}
	t.Skip("this host is too busy: no PID came again")
}

func TestGetSharesTheOpenFile(t *testing.T) {
	c := start(t, command("a bit of everything", t.TempDir()))
	var there []opened
	c.hears(t, &there)
	p := open(t, c.Process.Pid)
	fd, err := p.Get(there[0].Number)
	require.NoError(t, err)
	defer fd.Close()
	info, err := sock.Classify(fd.Raw())
	require.NoError(t, err)
	assert.Equal(t, there[0].Addr, info.Addr.String())

	require.True(t, there[0].Blocking)
	require.NoError(t, sock.Prepare(fd.Raw()))
	c.tells(t, "once more")
	c.hears(t, &there)
	assert.False(t, there[0].Blocking, "O_NONBLOCK is the other process's, too")

	_, err = p.Get(1 << 20)
	require.ErrorIs(t, err, unix.EBADF)
	assert.EqualError(t, err, fmt.Sprintf("take descriptor %d of %s: bad file descriptor", 1<<20, p))
}

func init() {
	children["accepts"] = func([]string) error {
		l, err := sock.Listen(tcp("127.0.0.1:0"), sock.Options{})
		if err != nil {
			return err
		}
		if err := unix.SetNonblock(l.FD.Raw(), false); err != nil {
			return err
		}
		if err := say(l.Addr().AddrPort.String()); err != nil {
			return err
		}
		for {
			_, _, err := unix.Accept(l.FD.Raw())
			if err != nil {
				return say(err.Error())
			}
			if err := say("accepted"); err != nil {
				return err
			}
		}
	}
}

// What the package doc says of a program that waits in accept(2).
func TestABlockingProgramIsToldToTryAgainOnceItsSocketIsPrepared(t *testing.T) {
	c := start(t, command("accepts"))
	var said string
	c.hears(t, &said)
	eventuallyInAccept(t, c.Process.Pid)
	found := take(t, open(t, c.Process.Pid))
	require.Len(t, found, 1)
	require.True(t, found[0].Blocking)
	require.NoError(t, sock.Prepare(found[0].FD.Raw()))

	client, err := net.Dial("tcp", said)
	require.NoError(t, err)
	defer client.Close()
	c.hears(t, &said)
	require.Equal(t, "accepted", said, "the call that waited goes on")
	c.hears(t, &said)
	assert.Equal(t, unix.EAGAIN.Error(), said)
}

func eventuallyInAccept(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		require.NoError(t, err)
		for _, task := range tasks {
			call, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/syscall", pid, task.Name()))
			var nr int
			if _, scanErr := fmt.Sscan(string(call), &nr); err == nil && scanErr == nil && nr == unix.SYS_ACCEPT4 {
				return true
			}
		}
		return false
	}, patience, time.Millisecond, "the child waits in accept")
}

func init() {
	if os.Getenv(childVariable) == "main thread ends" {
		runtime.LockOSThread() // init runs on the main thread
	}
	children["main thread ends"] = func([]string) error {
		go func() {
			if _, err := sock.Listen(tcp("127.0.0.1:0"), sock.Options{}); err != nil {
				panic(err)
			}
			if err := say("listening"); err != nil {
				panic(err)
			}
			waitToBeTold()
			os.Exit(0)
		}()
		_, _, errno := unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
		return errno
	}
}

func TestAProcessWithoutItsMainThreadSaysSo(t *testing.T) {
	c := start(t, command("main thread ends"))
	var said string
	c.hears(t, &said)
	p := open(t, c.Process.Pid)
	require.Eventually(t, func() bool {
		stdin, err := p.Get(0)
		return err != nil || stdin.Close() != nil
	}, patience, time.Millisecond, "the main thread ends")

	_, err := p.ListeningSockets(t.Context())
	require.ErrorContains(t, err, "its main thread has ended")
	require.NotErrorIs(t, err, pidfd.ErrExited)

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, p.Wait(ctx), context.DeadlineExceeded, "the other threads live")
	require.NoError(t, p.Signal(unix.SIGKILL))
	require.NoError(t, p.Wait(t.Context()))
}

func init() {
	children["connects"] = func(args []string) error {
		if _, err := net.Dial("unix", args[0]); err != nil {
			return err
		}
		waitToBeTold()
		return nil
	}
}

func TestThePeerOfAConnectionIsAProcess(t *testing.T) {
	path := "@" + t.TempDir()
	l, err := sock.Listen(sock.Unix(path), sock.Options{})
	require.NoError(t, err)
	defer l.Close()
	require.NoError(t, unix.SetNonblock(l.FD.Raw(), false))

	c := start(t, command("connects", path))
	raw, _, err := unix.Accept4(l.FD.Raw(), unix.SOCK_CLOEXEC)
	require.NoError(t, err)
	conn := sock.NewFD(raw)
	defer conn.Close()
	p, err := pidfd.OpenPeer(raw)
	require.NoError(t, err)
	defer p.Close()
	assert.Equal(t, c.Process.Pid, p.PID())

	c.kill()
	require.NoError(t, p.Wait(t.Context()))
	gone, err := pidfd.OpenPeer(raw)
	require.ErrorIs(t, err, pidfd.ErrExited)
	assert.Nil(t, gone)
}

func TestOpenPeerWantsAUnixSocket(t *testing.T) {
	_, err := pidfd.OpenPeer(1 << 20)
	require.ErrorIs(t, err, unix.EBADF)
	assert.NotErrorIs(t, err, pidfd.ErrExited)
}

func TestClosingIsForgettingAndNothingElse(t *testing.T) {
	s := sleeper(t)
	p, err := pidfd.Open(s.Process.Pid)
	require.NoError(t, err)
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	require.NoError(t, s.Process.Signal(unix.Signal(0)))
	assert.ErrorIs(t, p.Signal(unix.SIGTERM), unix.EBADF)
}
