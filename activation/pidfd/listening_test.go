package pidfd_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/pidfd"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// opened is a socket as the child has it.
type opened struct {
	Number   int
	Addr     string
	Blocking bool
}

func shown(found []pidfd.Found) []opened {
	var all []opened
	for _, f := range found {
		all = append(all, opened{Number: f.Number, Addr: f.Info.Addr.String(), Blocking: f.Blocking})
	}
	return all
}

func init() {
	children["a bit of everything"] = func(args []string) error {
		wanted, err := openEverything(args[0])
		if err != nil {
			return err
		}
		for {
			if err := say(wanted); err != nil {
				return err
			}
			waitToBeTold()
			for i := range wanted { // as it is now
				flags, err := unix.FcntlInt(uintptr(wanted[i].Number), unix.F_GETFL, 0)
				if err != nil {
					return err
				}
				wanted[i].Blocking = flags&unix.O_NONBLOCK == 0
			}
		}
	}
}

// openEverything opens sockets to which clients get, and gives those, among others.
func openEverything(dir string) (wanted []opened, err error) {
	var pipe [2]int
	if err := unix.Pipe(pipe[:]); err != nil {
		return nil, err
	}
	for i, a := range []sock.Addr{
		tcp("127.0.0.1:0"), tcp("[::1]:0"), tcp("0.0.0.0:0"),
		sock.Unix(filepath.Join(dir, "x.sock")), sock.Unix("@" + dir), sock.UnixPacket("@" + dir + "packet"),
		sock.UDP(netip.MustParseAddrPort("127.0.0.1:0")), sock.UDP(netip.MustParseAddrPort("[::1]:0")),
	} {
		l, err := sock.Listen(a, sock.Options{})
		if err != nil {
			return nil, err
		}
		blocking := i%2 == 0
		if err := unix.SetNonblock(l.FD.Raw(), !blocking); err != nil {
			return nil, err
		}
		wanted = append(wanted, opened{Number: l.FD.Raw(), Addr: l.Addr().String(), Blocking: blocking})
		if _, err := unix.Dup(l.FD.Raw()); err != nil { // the same socket again
			return nil, err
		}
	}
	shared, err := openReusePort()
	if err != nil {
		return nil, err
	}
	return append(wanted, shared...), openUnwanted(wanted[0].Number, dir)
}

// openReusePort opens two sockets at one address.
func openReusePort() (all []opened, err error) {
	at := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	for range 2 {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		}
		if err == nil {
			err = unix.Bind(fd, at)
		}
		if err == nil {
			err = unix.Listen(fd, 5)
		}
		if err != nil {
			return nil, err
		}
		bound, err := unix.Getsockname(fd)
		if err != nil {
			return nil, err
		}
		at.Port = bound.(*unix.SockaddrInet4).Port
		all = append(all, opened{Number: fd, Addr: fmt.Sprintf("tcp 127.0.0.1:%d", at.Port), Blocking: true})
	}
	return all, nil
}

// openUnwanted opens what no client gets to. The sockets at both ends of a connection
// to the listening one are among it.
func openUnwanted(listening int, dir string) error {
	at, err := unix.Getsockname(listening)
	if err != nil {
		return err
	}
	for _, s := range []struct {
		family, typ int
		do          func(fd int) error
	}{
		{unix.AF_INET, unix.SOCK_STREAM, func(fd int) error { return unix.Connect(fd, at) }},
		{unix.AF_INET, unix.SOCK_STREAM, nil},
		{unix.AF_INET, unix.SOCK_STREAM, func(fd int) error { return unix.Bind(fd, &unix.SockaddrInet4{}) }},
		{unix.AF_INET, unix.SOCK_DGRAM, nil},
		{unix.AF_INET, unix.SOCK_DGRAM, func(fd int) error { return unix.Connect(fd, at) }},
		{unix.AF_UNIX, unix.SOCK_DGRAM, func(fd int) error {
			return unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Join(dir, "log")})
		}},
		{unix.AF_NETLINK, unix.SOCK_RAW, func(fd int) error {
			return unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		}},
	} {
		fd, err := unix.Socket(s.family, s.typ, 0)
		if err == nil && s.do != nil {
			err = s.do(fd)
		}
		if err != nil {
			return err
		}
	}
	_, _, err = unix.Accept(listening)
	return err
}

func tcp(s string) sock.Addr {
	return sock.TCP(netip.MustParseAddrPort(s))
}

func TestEverySocketThatClientsGetToIsTakenAndNothingElse(t *testing.T) {
	c := start(t, command("a bit of everything", t.TempDir()))
	var there []opened
	c.hears(t, &there)
	before := descriptors(t)

	found := take(t, open(t, c.Process.Pid))
	assert.Equal(t, there, shown(found))
	assert.Len(t, descriptors(t), len(before)+1+len(found)) // the pidfd
	for _, f := range found {
		assert.NotZero(t, f.Info.Cookie)
		flags, err := unix.FcntlInt(uintptr(f.FD.Raw()), unix.F_GETFD, 0)
		require.NoError(t, err)
		assert.Equal(t, unix.FD_CLOEXEC, flags)
	}

	var after []opened
	c.tells(t, "once more")
	c.hears(t, &after)
	assert.Equal(t, there, after, "taking has changed the other process")
}

// descriptors are those of this process.
func descriptors(t *testing.T) []os.DirEntry {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return all
}

func init() {
	children["listens"] = func(args []string) error {
		if err := change(args); err != nil {
			return err
		}
		l, err := sock.Listen(tcp("127.0.0.1:0"), sock.Options{})
		if err != nil {
			return err
		}
		if err := say(l.Addr().AddrPort); err != nil {
			return err
		}
		for {
			if err := say(allow(waitToBeTold())); err != nil {
				return err
			}
		}
	}
}

func TestWhoWaitsForAStoppedProcessIsServed(t *testing.T) {
	c := start(t, command("listens"))
	var at netip.AddrPort
	c.hears(t, &at)
	p := open(t, c.Process.Pid)
	require.NoError(t, p.Signal(unix.SIGSTOP))

	client, err := net.Dial("tcp", at.String())
	require.NoError(t, err)
	defer client.Close()
	_, err = client.Write([]byte("hello"))
	require.NoError(t, err)

	found := take(t, p)
	require.Len(t, found, 1)
	assert.Equal(t, sock.TCP(at), found[0].Info.Addr)
	c.kill()

	assert.Equal(t, "hello", acceptAndRead(t, found[0].FD))
}

func acceptAndRead(t *testing.T, listening *sock.FD) string {
	t.Helper()
	raw, _, err := unix.Accept4(listening.Raw(), unix.SOCK_CLOEXEC)
	require.NoError(t, err)
	conn := sock.NewFD(raw)
	defer conn.Close()
	data := make([]byte, 64)
	n, err := unix.Read(raw, data)
	require.NoError(t, err)
	return string(data[:n])
}

// step is a context that does something when it is asked for the nth time whether it
// is over, as a walk does before each descriptor.
type step struct {
	context.Context
	at int
	do func()
}

func (s *step) Err() error {
	if s.at--; s.at == 0 {
		s.do()
	}
	return s.Context.Err()
}

func listenTimes(n int) (at []netip.AddrPort, err error) {
	for range n {
		l, err := sock.Listen(tcp("127.0.0.1:0"), sock.Options{})
		if err != nil {
			return nil, err
		}
		at = append(at, l.Addr().AddrPort)
	}
	return at, nil
}

func init() {
	children["listens often"] = func([]string) error {
		at, err := listenTimes(50)
		if err != nil {
			return err
		}
		if err := say(at); err != nil {
			return err
		}
		waitToBeTold()
		return nil
	}
}

func TestAProcessThatEndsMeanwhileLeavesWhatWasTaken(t *testing.T) {
	c := start(t, command("listens often"))
	var at []netip.AddrPort
	c.hears(t, &at)
	client, err := net.Dial("tcp", at[0].String())
	require.NoError(t, err)
	defer client.Close()
	_, err = client.Write([]byte("hello"))
	require.NoError(t, err)

	p := open(t, c.Process.Pid)
	found, err := p.ListeningSockets(&step{Context: t.Context(), at: 30, do: c.kill})
	closeLater(t, found)
	require.ErrorIs(t, err, pidfd.ErrExited)
	require.NotEmpty(t, found)
	assert.Less(t, len(found), len(at))
	assert.Equal(t, "hello", acceptAndRead(t, found[0].FD))

	found, err = p.ListeningSockets(t.Context())
	assert.Empty(t, found)
	assert.EqualError(t, err, fmt.Sprintf("find the sockets of %s: it has exited", p))
}

func TestAWalkThatIsCalledOffTakesNothing(t *testing.T) {
	c := start(t, command("listens often"))
	var at []netip.AddrPort
	c.hears(t, &at)
	p := open(t, c.Process.Pid)
	before := descriptors(t)
	ctx, cancel := context.WithCancel(t.Context())
	found, err := p.ListeningSockets(&step{Context: ctx, at: 30, do: cancel})
	assert.Empty(t, found)
	assert.ErrorIs(t, err, context.Canceled)
	assert.Len(t, descriptors(t), len(before))
	assert.Len(t, take(t, p), len(at), "and the next one finds everything")
}
