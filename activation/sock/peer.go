package sock

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Peer is the process at the other end of a connected Unix socket, as the kernel
// knows it (SO_PEERCRED, unix(7)): the one that called connect(2), or for who
// connected, the one that called listen(2) last. Who has got the socket since
// then it does not say.
type Peer struct {
	PID int    // 0 = of another PID name space
	UID uint32 // its effective user
}

// PeerOf asks for the peer of a connected Unix socket.
func PeerOf(fd int) (Peer, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Peer{}, fmt.Errorf("SO_PEERCRED of descriptor %d: %w", fd, err)
	}
	return Peer{PID: int(cred.Pid), UID: cred.Uid}, nil
}

// Trusted tells whether the peer may have what this process has: it runs as the
// same user, or as root. The mode of a socket file says the same; this holds also
// after somebody has changed it, and for a directory shared with a container.
func (p Peer) Trusted() bool {
	return p.UID == 0 || int(p.UID) == os.Geteuid()
}

// String names the process, as far as /proc tells: "process 12 (holdfast)".
func (p Peer) String() string {
	if p.PID == 0 {
		return "another process"
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.PID))
	if err != nil {
		return fmt.Sprintf("process %d", p.PID)
	}
	return fmt.Sprintf("process %d (%s)", p.PID, strings.TrimSpace(string(comm)))
}

// PeerPidFD is a pidfd (pidfd_open(2)) of the [Peer] of a connected Unix socket. Its
// number, unlike a PID, never means another process.
//
// Before Linux 6.5, which has SO_PEERPIDFD, it is made from the PID. It is the right
// process there if the peer lives: look for the end of the connection afterwards.
func PeerPidFD(fd int) (*FD, error) {
	raw, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if errors.Is(err, unix.ENOPROTOOPT) {
		raw, err = openPeer(fd)
	}
	if err != nil {
		return nil, fmt.Errorf("pidfd of the peer of descriptor %d: %w", fd, err)
	}
	return NewFD(raw), nil
}

func openPeer(fd int) (pidfd int, err error) {
	p, err := PeerOf(fd)
	if err != nil {
		return -1, err
	}
	if p.PID == 0 {
		return -1, unix.ESRCH
	}
	return unix.PidfdOpen(p.PID, 0)
}
