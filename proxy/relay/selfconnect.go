package relay

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// A TCP socket that connects to a port of the ephemeral range on its own host may
// be given that very port, and is then connected to itself: TCP allows it, and
// where nobody listens on the port it happens to one connect in thousands.

// firstEphemeral is the first port that the kernel gives to connecting sockets.
func firstEphemeral() uint16 {
	first := uint16(32768)
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, _ = fmt.Sscan(string(text), &first)
	}
	return first
}

// selfConnected tells whether a socket that has connected to sockaddr is its own
// peer.
func (r *Relay) selfConnected(fd int32, sockaddr []byte) bool {
	if binary.BigEndian.Uint16(sockaddr[2:]) < r.ephemeral {
		return false
	}
	own, _ := name(fd, unix.SYS_GETSOCKNAME)
	peer, _ := name(fd, unix.SYS_GETPEERNAME)
	return addrPort(&own) == addrPort(&peer)
}
