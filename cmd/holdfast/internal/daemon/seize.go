package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/handover"
	"github.com/holdfast-proxy/holdfast/activation/pidfd"
	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/vault"
)

// hungError is that an instance does not answer at all, or gives no sockets and does not
// say why.
type hungError struct{ error }

func (e hungError) Unwrap() error { return e.error }

// seize takes the sockets out of an instance that does not answer. It is killed when
// this one serves.
func (d *daemon) seize(s *handover.Session) (*takeover, error) {
	p := s.Process()
	if isManaged(p.PID()) {
		return nil, managedError{p}
	}
	ctx, cancel := context.WithTimeout(d.until, stepPatience)
	defer cancel()
	found, err := p.ListeningSockets(ctx)
	if err != nil && !errors.Is(err, pidfd.ErrExited) {
		return nil, err
	}
	t := &takeover{
		predecessor: seized{s, d.log},
		from:        p.String(), hung: true, units: &activation.Source{}, own: &activation.Source{Origin: activation.Pidfd},
	}
	for _, f := range found {
		if f.Info.Addr.Network == "unixpacket" { // the handover socket
			_ = f.FD.Close()
			continue
		}
		t.own.Offers = append(t.own.Offers, activation.Offer{FD: f.FD})
	}
	return t, nil
}

// managedError is why an instance that hangs is not taken over: its service manager has
// what it needs to go on, and starts it anew.
type managedError struct{ process *pidfd.Process }

func (e managedError) Error() string {
	return fmt.Sprintf("%s has a service manager, which goes on with its connections: end it by kill -9 %d, and it is started anew", e.process, e.process.PID())
}

// isManaged tells whether a process was started by a service manager that listens to it,
// still.
func isManaged(pid int) bool {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return false
	}
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		if address, ok := bytes.CutPrefix(variable, []byte("NOTIFY_SOCKET=")); ok && len(address) > 0 {
			return isListenedAt(string(address), pid)
		}
	}
	return false
}

// isListenedAt tells whether somebody has the notify socket at an address, as a process
// finds it: that of a keeper which was killed may be there, and is nobody's.
func isListenedAt(address string, pid int) bool {
	if address[0] == '/' {
		address = fmt.Sprintf("/proc/%d/root%s", pid, address)
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: address, Net: "unixgram"})
	if err == nil {
		_ = conn.Close()
	}
	return !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.ENOENT)
}

// seized is an instance that does not answer, and whose sockets were taken.
type seized struct {
	session *handover.Session
	log     *slog.Logger
}

// complete implements predecessor: it kills the instance, which has no say.
func (s seized) complete(ctx context.Context, _ time.Duration, _ func([]fdstore.Held)) (inheritance, error) {
	since := time.Now()
	files, err := robAndEnd(ctx, s.session.Process(), nil, s.log)
	if err != nil {
		return inheritance{}, err
	}
	s.giveUp()
	return inheritance{vault: files, since: since}, nil
}

// robAndEnd kills an instance that does not answer, and takes its connections from it
// before, while it stands still. If that cannot be done they are those that it has lent.
// If ctx ends meanwhile it goes on.
func robAndEnd(ctx context.Context, p *pidfd.Process, lent []fdstore.Held, log *slog.Logger) ([]fdstore.Held, error) {
	log.Warn("the running instance does not answer: it is killed", "instance", p.String())
	step, cancel := context.WithTimeout(ctx, stepPatience)
	defer cancel()
	files, err := vaultOf(step, p)
	switch {
	case ctx.Err() != nil:
		closeHeld(lent)
		closeHeld(files)
		return nil, errors.Join(ctx.Err(), p.Signal(unix.SIGCONT))
	case files != nil:
		closeHeld(lent)
	case lent != nil:
		files = lent
	case err != nil:
		log.Warn("the connections of the running instance end with it", "error", err.Error())
	}
	if err := end(p); err != nil {
		closeHeld(files)
		return nil, err
	}
	return files, nil
}

// errLetGo is that a process has closed its vault.
var errLetGo = errors.New("it has let go of its connections already")

// vaultOf stops a process and takes the vault out of it; there may be none.
func vaultOf(ctx context.Context, p *pidfd.Process) (files []fdstore.Held, err error) {
	if err := freeze(ctx, p); err != nil {
		return nil, err
	}
	table, err := p.Memfd(vault.MemfdName)
	if table == nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			closeHeld(files)
			files = nil
		}
	}()
	files = append(files, fdstore.Held{Name: vault.TableName, FD: table})
	others, owner, err := vault.Locate(table.Raw())
	if err == nil && owner == 0 {
		err = errLetGo
	}
	if err != nil {
		return files, err
	}
	for _, other := range others {
		fd, err := p.Get(other.FD)
		if err != nil {
			return files, err
		}
		files = append(files, fdstore.Held{Name: other.Name, FD: fd})
	}
	return files, nil
}

// giveUp implements predecessor.
func (s seized) giveUp() { _ = s.session.Close() }

// end kills a process that does not answer any more and waits until it is gone.
func end(p *pidfd.Process) error {
	ctx, cancel := context.WithTimeout(context.Background(), stepPatience)
	defer cancel()
	if err := p.Signal(unix.SIGKILL); err != nil && !errors.Is(err, pidfd.ErrExited) {
		return err
	}
	return p.Wait(ctx)
}
