package daemon

import (
	"bufio"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/pidfd"
	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/leaktest"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// A server that waits in accept(2), echoes what one client says after the other, and
// cannot go on when it is told that nobody is there.
func init() {
	children["a server that blocks"] = func() error {
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, unix.SIGTERM)
		l, err := sock.Listen(sock.TCP(netip.MustParseAddrPort("127.0.0.1:0")), sock.Options{})
		if err == nil {
			err = unix.SetNonblock(l.FD.Raw(), false)
		}
		if err != nil {
			return err
		}
		println(strconv.Itoa(int(l.Addr().AddrPort.Port())))
		for {
			client, _, err := unix.Accept(l.FD.Raw())
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil {
				select {
				case <-stop:
					return nil
				case <-time.After(patience):
					return err
				}
			}
			said := make([]byte, 64)
			if n, err := unix.Read(client, said); err == nil {
				_, _ = unix.Write(client, said[:n])
			}
			_ = unix.Close(client)
		}
	}
}

// blockingServer is that one, and where it listens.
func blockingServer(t *testing.T) (*exec.Cmd, config.Address) {
	t.Helper()
	server := exec.Command("/proc/self/exe")
	server.Env = append(os.Environ(), "DAEMON_TEST_CHILD=a server that blocks")
	says, err := server.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	line, err := bufio.NewReader(says).ReadString('\n')
	require.NoError(t, err)
	port, err := strconv.ParseUint(strings.TrimSpace(line), 10, 16)
	require.NoError(t, err)
	return server, loopback(uint16(port))
}

func requireServedAt(t *testing.T, address config.Address) {
	t.Helper()
	conn, err := net.Dial("tcp", net.JoinHostPort(address.Host, strconv.Itoa(int(address.Port))))
	require.NoError(t, err)
	defer conn.Close()
	requireEcho(t, conn)
}

// adopting is a configuration for the address of a process, and the options to adopt it.
func adopting(t *testing.T, address config.Address, process *exec.Cmd, stop unix.Signal) (*config.Config, Options) {
	t.Helper()
	cfg := configIn(shortDir(t))
	cfg.Global.DrainTimeout = config.Timeout{}
	cfg.Listeners[0].Listen = []config.Address{address}
	cfg.Upstreams[0].Servers = []config.Address{echo(t)}
	o := optionsFor(cfg)
	o.Adopt = &Adopt{PID: process.Process.Pid, Stop: stop}
	return cfg, o
}

func blocks(t *testing.T, process *exec.Cmd) bool {
	t.Helper()
	p, err := pidfd.Open(process.Process.Pid)
	require.NoError(t, err)
	defer p.Close()
	found, err := p.ListeningSockets(t.Context())
	require.NoError(t, err)
	defer closeFound(found)
	require.Len(t, found, 1)
	return found[0].Blocking
}

func TestAProgramThatBlocksIsNotAdoptedUnlessItIsToStop(t *testing.T) {
	server, address := blockingServer(t)
	_, o := adopting(t, address, server, 0)
	before := leaktest.Descriptors()
	_, err := start(t.Context(), o, quiet, new(slog.LevelVar))
	require.ErrorContains(t, err, "is a blocking socket")
	assert.Contains(t, Problems(err)[0].Hint, "--stop")
	assert.Empty(t, leaktest.Opened(before))
	assert.True(t, blocks(t, server))
	requireServedAt(t, address)
}

func TestAProgramThatBlocksIsAdoptedAndStopped(t *testing.T) {
	server, address := blockingServer(t)
	cfg, o := adopting(t, address, server, unix.SIGTERM)
	load := calling(t, address.String())
	r := runningOn(t, cfg, o)
	require.NoError(t, server.Wait())
	r.eventually(t, status.Running)
	requireServedAt(t, address)
	load.stop()
	assert.Contains(t, r.status(t).Handover.Last, "process ")
	r.log.eventually(t, "the other program has ended")
	r.signal(t, unix.SIGTERM)
	r.end(t)
}

func TestAnAdoptionThatFailsLeavesTheOtherProgramAsItWas(t *testing.T) {
	server, address := blockingServer(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	cfg, _ := adopting(t, address, server, 0)
	metrics := loopback(netip.MustParseAddrPort(taken.Addr().String()).Port())
	cfg.Global.Metrics = &metrics
	o := optionsFor(cfg)
	o.Adopt = &Adopt{PID: server.Process.Pid, Stop: unix.SIGTERM}
	before := leaktest.Descriptors()
	_, err = start(t.Context(), o, quiet, new(slog.LevelVar))
	require.ErrorContains(t, err, "metrics address")
	assert.Empty(t, leaktest.Opened(before))
	assert.True(t, blocks(t, server))
	requireServedAt(t, address)
	requireServedAt(t, address)
}

// frozenServer is a server that blocks, its sockets as they are when it is frozen, and the
// adoption that has done so.
func frozenServer(t *testing.T, stop unix.Signal) (*exec.Cmd, config.Address, *adoption) {
	t.Helper()
	server, address := blockingServer(t)
	p, err := pidfd.Open(server.Process.Pid)
	require.NoError(t, err)
	found, err := p.ListeningSockets(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { closeFound(found) })
	a := newAdoption(&Adopt{PID: server.Process.Pid, Stop: stop}, quiet)
	a.process = p
	require.NoError(t, a.makeReady(t.Context(), found))
	require.True(t, stands(server.Process.Pid))
	require.NoError(t, unix.SetNonblock(found[0].FD.Raw(), true))
	return server, address, a
}

func TestAProgramOfWhichNoSocketIsServedDoesNotStandStillForEver(t *testing.T) {
	server, _, a := frozenServer(t, unix.SIGINT)
	a.follow(t.Context(), nil)
	require.Error(t, server.Wait(), "it got the signal")
}

func TestAProgramGoesOnWhenWhoHasStoppedItIsKilled(t *testing.T) {
	server, address, a := frozenServer(t, unix.SIGTERM)
	require.NoError(t, a.thaw.pipe.Close()) // as the kernel does
	require.Eventually(t, func() bool { return !stands(server.Process.Pid) }, patience, time.Millisecond)
	requireServedAt(t, address)
	assert.True(t, blocks(t, server))
	requireServedAt(t, address)
	a.giveUp()
}

func TestAProcessCannotAdoptItself(t *testing.T) {
	o := optionsFor(configIn(shortDir(t)))
	o.Adopt = &Adopt{PID: os.Getpid()}
	_, err := start(t.Context(), o, quiet, new(slog.LevelVar))
	require.ErrorContains(t, err, "it is this one")
}

// Its stop would retire the sockets that both have.
func TestAnInstanceIsAdoptedButNotStopped(t *testing.T) {
	s := twoSockets(t)
	first := s.lifeOf(t, nobody, nil)
	first.status()
	o := s.options()
	o.Adopt = &Adopt{PID: first.command.Process.Pid, Stop: unix.SIGTERM}
	_, err := start(t.Context(), o, quiet, new(slog.LevelVar))
	require.ErrorContains(t, err, "it is an instance of holdfast")
	assert.Contains(t, Problems(err)[0].Hint, "--takeover=always")

	o.Adopt.Stop = 0
	o.Source.Overrides.ControlSocket, o.Source.Overrides.HandoverSocket = s.dir+"/2.sock", s.dir+"/3.sock"
	var log logBook
	d, err := start(t.Context(), o, log.logger(), new(slog.LevelVar))
	require.NoError(t, err)
	d.stop(nil)
	requireEcho(t, s.dial(t, "web"))
	assert.FileExists(t, s.dir+"/web.sock")
}

func TestOnlyWhatIsWantedIsTakenOfAProcess(t *testing.T) {
	listen := func(a sock.Addr) *sock.Listener {
		l, err := sock.Listen(a, sock.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, l.Close()) })
		return l
	}
	port := sock.TCP(netip.MustParseAddrPort("127.0.0.1:0"))
	web, other, retired := listen(port), listen(port), listen(port)
	require.NoError(t, retired.Retire())
	cfg := configIn(shortDir(t))
	cfg.Listeners = []config.Listener{
		{Name: "api", Listen: []config.Address{loopback(retired.Addr().AddrPort.Port())}},
		{Name: "web", Listen: []config.Address{loopback(web.Addr().AddrPort.Port()), loopback(other.Addr().AddrPort.Port())}},
	}
	self, err := pidfd.Open(os.Getpid())
	require.NoError(t, err)
	defer self.Close()
	for _, c := range []struct {
		names   []string
		sockets int
		missing []string
	}{
		{nil, 2, nil},
		{[]string{"web"}, 2, []string{}},
		{[]string{"api"}, 0, []string{"api"}},
		{[]string{"api", "web"}, 2, []string{"api"}},
	} {
		found, err := self.ListeningSockets(t.Context())
		require.NoError(t, err)
		w := newWanted(cfg, c.names)
		theirs := w.choose(found)
		assert.Len(t, theirs, c.sockets, "%v", c.names)
		assert.Equal(t, c.missing, w.missing(theirs))
		open := 0
		for _, f := range found {
			if f.FD.Raw() >= 0 {
				open++
			}
		}
		assert.Equal(t, c.sockets, open, "the others are closed")
		closeFound(theirs)
	}
}
