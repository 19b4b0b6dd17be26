package integration

import (
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// resets breaks one side off and expects the other to learn that it was broken
// off: a clean end would make a truncated answer look complete.
func resets(t *testing.T) traffic {
	pairs := pairings(t, "reset")
	tcpTCP, tcpUnix, unixTCP := pairs[0], pairs[1], pairs[2]
	rounds := unlessShort(50, 10)
	return traffic{"reset", routes(pairs), func(t *testing.T, holdfast *testbed.Holdfast) {
		for _, sent := range []int{0, 1, 100, 100_000, 4_000_000} {
			after := " after " + strconv.Itoa(sent) + " bytes"
			t.Run("by the server"+after, func(t *testing.T) {
				for range rounds {
					client, server := tcpTCP.open(t)
					requireReset(t, client, server, sent)
				}
			})
			t.Run("by the client"+after, func(t *testing.T) {
				for range rounds {
					client, server := tcpTCP.open(t)
					requireReset(t, server, client, sent)
				}
			})
		}
		t.Run("by the server, both directions full", func(t *testing.T) {
			for range rounds / 10 {
				client, server := tcpTCP.open(t)
				fill(t, client)
				fill(t, server)
				reset(server)
				requireBrokenOff(t, client)
			}
		})
		t.Run("by the client, both directions full", func(t *testing.T) {
			for range rounds / 10 {
				client, server := tcpTCP.open(t)
				fill(t, client)
				fill(t, server)
				reset(client)
				requireBrokenOff(t, server)
			}
		})
		t.Run("by the client at once", func(t *testing.T) { resetAtOnce(t, tcpTCP, holdfast) })
		// The kernel resets a Unix peer only when it left data unread, so a Unix
		// socket can be the side that breaks off, and not the one that is told.
		t.Run("by a Unix server", func(t *testing.T) {
			for range rounds {
				client, server := tcpUnix.open(t)
				greet(t, client, server)
				leaveUnread(t, client, server)
				reset(server)
				requireBrokenOff(t, client)
			}
		})
		t.Run("by a Unix client", func(t *testing.T) {
			for range rounds {
				client, server := unixTCP.open(t)
				greet(t, client, server)
				leaveUnread(t, server, client)
				reset(client)
				requireBrokenOff(t, server)
			}
		})
	}}
}

// requireReset lets one end send some bytes and break off while the last of them
// are on the way, and expects the other to see a part of them, then the reset.
func requireReset(t *testing.T, told, breaking stream, sent int) {
	t.Helper()
	greet(t, told, breaking)
	all := text(sent)
	go func() { // ends when all is sent
		_, _ = io.WriteString(breaking, all)
		reset(breaking)
	}()
	got := requireBrokenOff(t, told)
	require.True(t, strings.HasPrefix(all, string(got)), "what came is what was sent")
}

// greet passes a byte each way, so that the proxy is done with dialling: until
// then it may take a server that breaks off for one that is not ready, and dial
// again.
func greet(t *testing.T, a, b stream) {
	t.Helper()
	for _, way := range [][2]stream{{a, b}, {b, a}} {
		_, err := io.WriteString(way[0], "!")
		require.NoError(t, err)
		expect(t, way[1], "!")
	}
}

// requireBrokenOff reads until the connection ends by a reset.
func requireBrokenOff(t *testing.T, told stream) []byte {
	t.Helper()
	got, err := io.ReadAll(told)
	require.ErrorIs(t, err, syscall.ECONNRESET, "after %d bytes", len(got))
	return got
}

// reset closes a connection without an orderly end.
func reset(conn stream) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// fill sends until nothing more fits between the ends.
func fill(t *testing.T, conn stream) {
	t.Helper()
	block := make([]byte, 1<<20)
	for {
		require.NoError(t, conn.SetWriteDeadline(time.Now().Add(200*time.Millisecond)))
		if _, err := conn.Write(block); err != nil {
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			return
		}
	}
}

// leaveUnread makes data wait at an end that will not read it.
func leaveUnread(t *testing.T, from, at stream) {
	t.Helper()
	const unread = "unread"
	_, err := io.WriteString(from, unread)
	require.NoError(t, err)
	raw, err := at.(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	testbed.Eventually(t, patience, "the bytes have arrived", func() bool {
		waiting := 0
		require.NoError(t, raw.Control(func(fd uintptr) {
			waiting, err = unix.IoctlGetInt(int(fd), unix.SIOCINQ)
		}))
		require.NoError(t, err)
		return waiting == len(unread)
	})
}

// resetAtOnce breaks off before the proxy can have dialled the server, which
// then sees no connection or a broken one.
func resetAtOnce(t *testing.T, p pairing, holdfast *testbed.Holdfast) {
	const rounds = 200
	before := holdfast.Status(t).Connections.Accepted
	for range rounds {
		reset(dial(t, p.route.Listen[0]))
	}
	testbed.Eventually(t, patience, "all are accepted and none is left", func() bool {
		c := holdfast.Status(t).Connections
		return c.Accepted == before+rounds && c.Active == 0
	})
	for len(p.accepted) > 0 {
		requireBrokenOff(t, <-p.accepted)
	}
}

// TestServerThatBreaksOffAtOnce never lets its clients take that for an empty
// answer.
func TestServerThatBreaksOffAtOnce(t *testing.T) {
	server := testbed.TCP(t)
	listen(t, server, func(conn stream) { reset(conn) })
	route := testbed.Route{
		Name: "broken", Listen: []string{testbed.TCP(t)}, Servers: []string{server},
		Upstream: `connect_retry = "300ms"`,
	}
	testbed.StartHoldfast(t, testbed.Config{Routes: []testbed.Route{route}})
	for range 20 {
		conn, err := testbed.Dial(route.Listen[0])
		if err == nil { // else it was broken off before Dial returned
			var got []byte
			got, err = io.ReadAll(conn)
			assert.Empty(t, got)
			_ = conn.Close()
		}
		require.ErrorIs(t, err, syscall.ECONNRESET)
	}
}
