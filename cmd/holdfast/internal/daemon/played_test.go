package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/activation/handover"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// The steps of a session, as far as one that a test plays has come.
const (
	greeted = iota
	lent
	alone
)

// playedReplacement is a process that takes over step by step: this one.
type playedReplacement struct {
	*handover.Session
	got []handover.Received
}

// play takes the first steps, up to one of them.
func (s *site) play(t *testing.T, upTo int) *playedReplacement {
	t.Helper()
	session, err := handover.Dial(s.dir + "/handover.sock")
	require.NoError(t, err)
	p := &playedReplacement{Session: session}
	t.Cleanup(func() {
		_ = session.Close()
		for _, r := range p.got {
			assert.NoError(t, r.FD.Close())
		}
	})
	_, err = p.Hello(t.Context(), "played")
	require.NoError(t, err)
	if upTo >= lent {
		p.got, err = p.SendListeningSockets(t.Context())
		require.NoError(t, err)
	}
	if upTo >= alone {
		require.NoError(t, p.BeginDrainingConnections(t.Context(), 0))
	}
	return p
}

// playedOriginal is an instance that only has descriptors to lend.
type playedOriginal struct {
	sockets   []handover.Socket
	files     int           // of its connections; 0 = they stay
	asked     func()        // for the sockets; may be nil
	lettingGo chan struct{} // closed when it has let go; nil = it does at once

	mu     sync.Mutex
	events []string
}

func (o *playedOriginal) note(event string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, event)
}

func (o *playedOriginal) heard(event string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Contains(o.events, event)
}

func (o *playedOriginal) Sockets() ([]handover.Socket, error) {
	if o.asked != nil {
		o.asked()
	}
	return o.sockets, nil
}

func (o *playedOriginal) BeginDraining(context.Context, time.Duration) error {
	o.note("draining")
	return nil
}

func (o *playedOriginal) Shutdown(sock.Peer) { o.note("shutdown") }

func (o *playedOriginal) Abandoned() { o.note("abandoned") }

// playOriginal plays one at the addresses of the site's listener, until the test ends.
func (s *site) playOriginal(t *testing.T, o *playedOriginal) {
	t.Helper()
	for _, address := range s.listen["web"] {
		at := netip.MustParseAddrPort(strings.TrimPrefix(address, "tcp://"))
		l, err := sock.Listen(sock.TCP(at), sock.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, l.Close()) })
		o.sockets = append(o.sockets, handover.Socket{Label: handover.Label{Origin: "bind", StoreName: l.StoreName()}, FD: l.FD.Raw()})
	}
	l, err := handover.Listen(s.dir + "/handover.sock")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- handover.Serve(ctx, l, o, handover.Options{Version: "played"}, quiet) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-ended)
	})
}

// Connections implements [handover.Original].
func (o *playedOriginal) Connections() (files []handover.Socket, err error) {
	for n := range o.files {
		files = append(files, handover.Socket{Label: handover.Label{Name: fmt.Sprintf("vault/%d/in", n+1)}, FD: o.sockets[0].FD})
	}
	return files, nil
}

// LetGo implements [handover.Original].
func (o *playedOriginal) LetGo(sock.Peer) error {
	o.note("letting go")
	if o.lettingGo != nil {
		<-o.lettingGo
	}
	return nil
}
