package sock

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Conflicts tells whether the kernel refuses to bind a beside this socket: same
// transport and port, a family in common, and the same address or a wildcard on
// either side.
func (i Info) Conflicts(a Addr) bool {
	have, want := i.Addr.AddrPort, a.AddrPort
	if i.OtherNetNS || i.Addr.Network != a.Network || i.Addr.Path != a.Path || have.Port() != want.Port() {
		return false
	}
	if i.Addr == a {
		return true
	}
	takes4 := have.Addr().Is4() || have.Addr().IsUnspecified() && !i.V6Only
	wants4, wants6 := !want.Addr().Is6(), !want.Addr().Is4()
	wildcard := have.Addr().IsUnspecified() || want.Addr().IsUnspecified() || !want.Addr().IsValid()
	return wildcard && (takes4 && wants4 || have.Addr().Is6() && wants6)
}

func inTheWay(beside []*Listener, a Addr) []*Listener {
	var rivals []*Listener
	for _, l := range beside {
		if l.Info.Conflicts(a) {
			rivals = append(rivals, l)
		}
	}
	return rivals
}

// share lets a new socket bind and listen beside old ones that overlap with it,
// until unshare is called. Without it bind fails with EADDRINUSE.
//
// The kernel allows that to sockets of one user which all have SO_REUSEPORT, and
// asks only when somebody binds or listens (inet_csk_get_port). So it is on for two
// system calls, and other programs are refused before and after. The sockets are no
// reuseport group, over which the kernel would spread the clients: that takes
// equal addresses.
//
// One trace is left. With a TCP port the kernel remembers that this user's sockets
// could share it, until nobody has the port any more. A program of the same user
// that sets SO_REUSEPORT itself may then not be refused.
func share(fd *FD, rivals []*Listener) (unshare func(), err error) {
	var shared []*FD
	unshare = func() {
		for _, fd := range shared {
			_ = unix.SetsockoptInt(fd.Raw(), unix.SOL_SOCKET, unix.SO_REUSEPORT, 0) // an open socket takes it
		}
	}
	all := []*FD{fd}
	for _, l := range rivals {
		all = append(all, l.FD)
	}
	for _, fd := range all {
		on, err := unix.GetsockoptInt(fd.Raw(), unix.SOL_SOCKET, unix.SO_REUSEPORT)
		if err == nil && on == 0 {
			err = unix.SetsockoptInt(fd.Raw(), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
			shared = append(shared, fd)
		}
		if err != nil {
			unshare()
			return nil, fmt.Errorf("set SO_REUSEPORT: %w", err)
		}
	}
	return unshare, nil
}
