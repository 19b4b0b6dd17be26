package keeper

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// Job is what the keeper does when the process ends.
type Job string

// The values of Job.
const (
	JobRestart Job = "restart" // it starts the command again, with all that is stored
	JobStop    Job = "stop"    // it drops what is stored, and ends
	JobUnknown Job = ""        // nobody says: there is no keeper
)

// mostAsking is how many may be connected. Whoever comes then drives out the first.
const mostAsking = 64

// jobs is the socket where processes learn their Job (SOCK_SEQPACKET). Who connects is
// sent "restart ID" or "stop ID" at once, and again when it changes, and sees the end of
// the connection when the keeper dies.
type jobs struct {
	poll   *poll
	may    func(pid int) bool // tells who may ask
	socket *sock.FD
	asking []*sock.FD
	job    Job
	id     string
}

func listenJobs(at *place, p *poll, may func(pid int) bool, job Job) (*jobs, error) {
	raw, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("job socket: %w", err)
	}
	j := &jobs{poll: p, may: may, socket: sock.NewFD(raw), job: job, id: at.id}
	err = unix.Bind(raw, &unix.SockaddrUnix{Name: at.job})
	if err == nil {
		err = unix.Listen(raw, mostAsking)
	}
	if err == nil {
		err = p.on(raw, unix.EPOLLIN, j.accept)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("job socket %s: %w", at.job, err), j.socket.Close())
	}
	return j, nil
}

func (j *jobs) accept() {
	raw, _, err := unix.Accept4(j.socket.Raw(), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	if err != nil {
		return // who had connected is gone
	}
	fd := sock.NewFD(raw)
	peer, err := sock.PeerOf(raw)
	if err != nil || !j.may(peer.PID) {
		_ = fd.Close()
		return
	}
	if len(j.asking) == mostAsking {
		j.dismiss(j.asking[0])
	}
	// What they send is nobody's business: only their end is waited for.
	if err := j.poll.on(raw, unix.EPOLLRDHUP, func() { j.dismiss(fd) }); err != nil {
		_ = fd.Close()
		return
	}
	j.asking = append(j.asking, fd)
	j.tell(fd)
}

// set says what the job is from now on.
func (j *jobs) set(job Job) {
	if j.job == job {
		return
	}
	j.job = job
	for _, fd := range j.asking {
		j.tell(fd)
	}
}

// tell does not wait: who does not read has had an answer.
func (j *jobs) tell(fd *sock.FD) {
	_ = unix.Sendmsg(fd.Raw(), []byte(string(j.job)+" "+j.id), nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

func (j *jobs) dismiss(fd *sock.FD) {
	j.poll.off(fd.Raw())
	_ = fd.Close()
	j.asking = slices.DeleteFunc(j.asking, func(other *sock.FD) bool { return other == fd })
}

func (j *jobs) close() {
	for len(j.asking) > 0 {
		j.dismiss(j.asking[0])
	}
	j.poll.off(j.socket.Raw())
	_ = j.socket.Close()
}
