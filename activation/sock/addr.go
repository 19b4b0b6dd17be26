package sock

import (
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
)

// Addr says which listening socket is meant: transport and bound address. Two
// Addrs that are equal mean the same queue. The zero Addr means none.
//
// Addresses of a kernel socket are always in the form that [TCP], [UDP] and [Unix]
// give, so make yours with them.
type Addr struct {
	Network  string         // "tcp", "udp", "unix" or "unixpacket"; of a received socket also "unixgram"
	AddrPort netip.AddrPort // of tcp and udp; an invalid (zero) Addr in it = every address of this host, IPv6 and IPv4
	Path     string         // of unix: a file, or "@name" for the abstract name space
}

// TCP is the identity of a TCP socket. A v4-mapped address is the IPv4 address
// that it stands for: the kernel has one queue for both.
func TCP(ap netip.AddrPort) Addr {
	return Addr{Network: "tcp", AddrPort: canonical(ap)}
}

// UDP is the identity of a UDP socket, with addresses as those of [TCP].
func UDP(ap netip.AddrPort) Addr {
	return Addr{Network: "udp", AddrPort: canonical(ap)}
}

// Unix is the identity of a Unix stream socket: the path of a file, or "@name"
// in the abstract name space. A file whose name begins with "@" is "./@name".
func Unix(path string) Addr {
	return Addr{Network: "unix", Path: cleanPath(path)}
}

// UnixPacket is the identity of a Unix socket that keeps the bounds of messages
// (SOCK_SEQPACKET), with paths as those of [Unix].
func UnixPacket(path string) Addr {
	return Addr{Network: "unixpacket", Path: cleanPath(path)}
}

// String is the address as status and errors show it: "tcp 127.0.0.1:8080",
// "tcp [::]:80", "tcp :80" (every address), "unix /run/x.sock", "unix @abstract".
func (a Addr) String() string {
	switch {
	case a.Network == "":
		return "no address"
	case a.isUnix() && a.Path == "":
		return a.Network + " without a path"
	case a.isUnix():
		return a.Network + " " + a.Path
	case !a.AddrPort.Addr().IsValid():
		return a.Network + " :" + strconv.Itoa(int(a.AddrPort.Port()))
	}
	return a.Network + " " + a.AddrPort.String()
}

func (a Addr) isUnix() bool {
	return strings.HasPrefix(a.Network, "unix")
}

func (a Addr) isAbstract() bool {
	return strings.HasPrefix(a.Path, "@")
}

// HasFile tells a Unix address that is a path from an abstract one and from IP.
func (a Addr) HasFile() bool {
	return a.isUnix() && a.Path != "" && !a.isAbstract()
}

func canonical(ap netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// cleanPath makes two spellings of a path equal. "./@x" keeps its dot, which
// tells it from the abstract "@x".
func cleanPath(path string) string {
	if path == "" || path[0] == '@' {
		return path
	}
	if clean := filepath.Clean(path); clean[0] != '@' {
		return clean
	}
	return path
}
