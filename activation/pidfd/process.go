package pidfd

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// ErrExited means that the process has ended, be it as a zombie: it has no
// descriptors any more.
var ErrExited = errors.New("it has exited")

// Process is another process, or this one. Its methods may be called from several
// goroutines; Close only when the others have returned.
type Process struct {
	fd   *sock.FD
	pid  int
	name string
}

// Open finds the process that has the PID now. Who knows the PID from a file or from
// a person looks afterwards whether it is the process that was meant.
//
// The error wraps ESRCH when there is none. Needs Linux 5.3.
func Open(pid int) (*Process, error) {
	raw, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, openError(pid, err)
	}
	return newProcess(sock.NewFD(raw), pid), nil
}

func openError(pid int, err error) error {
	thread := errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) // the latter in newer kernels
	switch {
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS):
		return &RightsError{
			Process: fmt.Sprintf("process %d", pid),
			Reasons: []Reason{refusedCall(err)},
			Err:     err,
			facts:   facts{call: "pidfd_open"},
		}
	case thread && pid > 0:
		return fmt.Errorf("open process %d: it is a thread of another process: %w", pid, err)
	}
	return fmt.Errorf("open process %d: %w", pid, err)
}

// OpenPeer finds the process at the other end of a connected Unix socket: the one
// that called connect(2), or for who connected, the one that called listen(2) last.
// See [sock.PeerOf] for what that does not say.
//
// The error is ErrExited when the peer has ended or has closed the connection.
func OpenPeer(fd int) (*Process, error) {
	pidfd, err := sock.PeerPidFD(fd)
	if err != nil {
		if errors.Is(err, unix.ESRCH) || hungUp(fd) { // some kernels say EINVAL of one that has gone
			err = fmt.Errorf("open the peer of descriptor %d: %w", fd, ErrExited)
		}
		return nil, err
	}
	p := newProcess(pidfd, procPID(pidfd))
	// Before Linux 6.5 the pidfd is made from the PID. It is the peer's if the peer
	// was there still, and a peer that has gone has hung up.
	if hungUp(fd) {
		return nil, errors.Join(fmt.Errorf("open the peer of descriptor %d: %w", fd, ErrExited), p.Close())
	}
	return p, nil
}

func hungUp(fd int) bool {
	return polled(fd, unix.POLLHUP)
}

func newProcess(fd *sock.FD, pid int) *Process {
	p := &Process{fd: fd, pid: pid, name: sock.Peer{PID: pid}.String()}
	if pid > 0 && p.exited() { // the name may be that of the next process with the PID
		p.name = fmt.Sprintf("process %d", pid)
	}
	return p
}

// PID is the process's number; 0 when it is of another PID name space.
func (p *Process) PID() int {
	return p.pid
}

// String names the process: "process 12 (nginx)".
func (p *Process) String() string {
	return p.name
}

// Parent opens the process that has started this one, if that is one of the same program,
// as the main process of a server is to its workers; nil = it is not, or has ended, or may
// not be looked at.
func (p *Process) Parent() *Process {
	dir, err := p.procDir()
	if err != nil {
		return nil
	}
	defer dir.close()
	before, _ := dir.status()
	parent, err := Open(before.parent)
	if err != nil {
		return nil
	}
	if now, _ := dir.status(); now.parent != before.parent || !parent.runs(dir) {
		_ = parent.Close()
		return nil
	}
	return parent
}

// runs tells whether this process runs the same program as another one.
func (p *Process) runs(other *procDir) bool {
	dir, err := p.procDir()
	if err != nil {
		return false
	}
	defer dir.close()
	mine, err := dir.link("exe")
	theirs, otherErr := other.link("exe")
	return err == nil && otherErr == nil && mine == theirs
}

// Close forgets the process, which goes on as it was.
func (p *Process) Close() error {
	return p.fd.Close()
}

// Signal sends a signal to the process. The right to do so is another one than that
// to take descriptors, see kill(2): the same user, or CAP_KILL.
func (p *Process) Signal(sig unix.Signal) error {
	err := unix.PidfdSendSignal(p.fd.Raw(), sig, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		err = ErrExited
	}
	if err != nil {
		return fmt.Errorf("send %s to %s: %w", unix.SignalName(sig), p, err)
	}
	return nil
}
