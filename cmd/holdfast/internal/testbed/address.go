package testbed

import (
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var ports struct {
	sync.Mutex
	next int
}

// Port returns a TCP port of 127.0.0.1 that nobody uses. It lies below the
// kernel's ephemeral range, so that no outgoing connection takes it before the
// server that it is meant for does.
func Port(t testing.TB) int {
	t.Helper()
	const first, last = 12000, 32000
	ports.Lock()
	defer ports.Unlock()
	syscall.ForkLock.RLock() // a child that is being started would have the port for a moment more
	defer syscall.ForkLock.RUnlock()
	if ports.next == 0 {
		// Test binaries that run side by side start at different places.
		ports.next = first + rand.IntN(last-first)
	}
	for range last - first {
		if ports.next++; ports.next >= last {
			ports.next = first
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(ports.next)))
		if err == nil {
			_ = l.Close()
			return ports.next
		}
	}
	t.Fatal("no free port on 127.0.0.1")
	return 0
}

// TCP returns a free address as Holdfast's config writes it, "tcp://127.0.0.1:12345".
func TCP(t testing.TB) string {
	t.Helper()
	return "tcp://127.0.0.1:" + strconv.Itoa(Port(t))
}

// Split takes an address of the config apart, for package net.
func Split(address string) (network, rest string) {
	network, rest, _ = strings.Cut(address, "://")
	return network, rest
}

// Dial connects to an address of the config.
func Dial(address string) (net.Conn, error) {
	network, rest := Split(address)
	return net.Dial(network, rest)
}

// HostPort is "127.0.0.1:12345" of "tcp://127.0.0.1:12345", and the path of a
// Unix socket.
func HostPort(address string) string {
	_, rest := Split(address)
	return rest
}

// PortOf is "12345" of "tcp://127.0.0.1:12345".
func PortOf(address string) string {
	return address[strings.LastIndexByte(address, ':')+1:]
}

// Listening waits until somebody accepts at an address.
func Listening(t testing.TB, address string) {
	t.Helper()
	Eventually(t, 20*time.Second, "a server listens on "+address, func() bool {
		conn, err := Dial(address)
		if err != nil {
			return false
		}
		_ = conn.Close()
		return true
	})
}
