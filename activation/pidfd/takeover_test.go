package pidfd_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/pidfd"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// ours serves a taken socket: it answers "ours".
type ours struct {
	listening *os.File // a descriptor of its own
	served    *atomic.Int64
	running   sync.WaitGroup
}

func serve(t *testing.T, f pidfd.Found, served *atomic.Int64) {
	t.Helper()
	require.False(t, f.Blocking, "%s", f.Info)
	raw, err := unix.FcntlInt(uintptr(f.FD.Raw()), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	o := &ours{listening: os.NewFile(uintptr(raw), f.Info.String()), served: served}
	o.running.Go(func() { o.accept(t) })
	t.Cleanup(func() {
		assert.NoError(t, o.listening.Close())
		o.running.Wait()
	})
}

// accept ends when the descriptor is closed.
func (o *ours) accept(t *testing.T) {
	conn, err := o.listening.SyscallConn()
	if !assert.NoError(t, err) {
		return
	}
	for {
		var client int
		var acceptErr error
		err := conn.Read(func(fd uintptr) bool {
			client, _, acceptErr = unix.Accept4(int(fd), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			return !errors.Is(acceptErr, unix.EAGAIN) // the other process was quicker
		})
		if err != nil {
			return
		}
		if !assert.NoError(t, acceptErr) {
			return
		}
		o.running.Go(func() { o.answer(os.NewFile(uintptr(client), "client")) })
	}
}

func (o *ours) answer(client *os.File) {
	defer client.Close()
	_ = client.SetDeadline(time.Now().Add(patience))
	if _, err := http.ReadRequest(bufio.NewReader(client)); err != nil {
		return // wrk's last ones
	}
	if _, err := client.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nours"); err == nil {
		o.served.Add(1)
	}
}

// load is wrk against one address, each request over a connection of its own, until
// it is told to stop: then no request may have failed.
func load(t *testing.T, a sock.Addr) (stop func()) {
	t.Helper()
	wrk := exec.Command(installed(t, "wrk"), "-t1", "-c8", "-d60s", "--timeout", "30s",
		"-H", "Connection: close", "http://"+a.AddrPort.String()+"/")
	var out bytes.Buffer
	wrk.Stdout = &out
	require.NoError(t, wrk.Start())
	t.Cleanup(func() { _ = wrk.Process.Kill() })
	return func() {
		require.NoError(t, wrk.Process.Signal(unix.SIGINT))
		require.NoError(t, wrk.Wait())
		assert.Contains(t, out.String(), "Requests/sec")
		assert.NotContains(t, out.String(), "errors", "%s", a)
		assert.NotContains(t, out.String(), "Non-2xx", "%s", a)
	}
}

// loadUnix is the same for a Unix socket, which wrk does not know.
func loadUnix(t *testing.T, a sock.Addr) (stop func()) {
	t.Helper()
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(running.Wait)
	t.Cleanup(cancel)
	for range 4 {
		running.Go(func() {
			for ctx.Err() == nil {
				_, err := get(a)
				assert.NoError(t, err)
			}
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}

func TestTakenFromAProgramUnderLoad(t *testing.T) {
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			if program.renamesFile {
				needsRoot(t, "find a renamed file")
			}
			site := program.start(t, name)
			var stopLoad []func()
			for _, a := range []sock.Addr{site.tcp4, site.tcp6, site.reuseport} {
				stopLoad = append(stopLoad, load(t, a))
			}
			stopUnix := loadUnix(t, site.unix)

			p := open(t, site.Process.Pid)
			found := take(t, p)
			addrs := map[sock.Addr]int{}
			served := map[sock.Addr]*atomic.Int64{}
			for _, f := range found {
				a := f.Info.Addr
				addrs[a]++
				if served[a] == nil {
					served[a] = &atomic.Int64{}
				}
				serve(t, f, served[a])
			}
			require.Equal(t, map[sock.Addr]int{site.tcp4: 1, site.tcp6: 1, site.reuseport: 2, site.unix: 1}, addrs)

			for _, a := range site.addrs() {
				require.Eventually(t, func() bool { return served[a].Load() > 100 }, patience, time.Millisecond,
					"both serve %s", a)
			}
			if program.removesFile {
				stopUnix() // a client that comes after that does not find the socket
			}
			before := make(map[sock.Addr]int64)
			require.NoError(t, os.Link(site.unix.Path, site.unix.Path+".kept"))
			require.NoError(t, p.Signal(program.stop))
			require.NoError(t, p.Wait(t.Context()))
			if program.removesFile {
				assert.NoFileExists(t, site.unix.Path)
				require.NoError(t, os.Rename(site.unix.Path+".kept", site.unix.Path))
				stopUnix = loadUnix(t, site.unix)
			}

			for a, n := range served {
				before[a] = n.Load()
			}
			for _, a := range site.addrs() {
				require.Eventually(t, func() bool { return served[a].Load() > before[a]+100 }, patience, time.Millisecond,
					"only we serve %s", a)
			}
			stopUnix()
			for _, stop := range stopLoad {
				stop()
			}
		})
	}
}
