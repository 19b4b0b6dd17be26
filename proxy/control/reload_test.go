package control

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// willing is an instance that does what it is asked for.
type willing struct{ canned }

var reloaded = status.Reload{Generation: 8, Changes: []status.Change{
	{Socket: "tcp 127.0.0.1:8080", Names: []string{"web"}, Origin: "bind", Change: status.Bound},
}}

var upgraded = status.Upgrade{PID: 12, Former: 11}

func (willing) Reload(context.Context) (status.Reload, error) { return reloaded, nil }

func (willing) Upgrade(context.Context) (status.Upgrade, error) { return upgraded, nil }

func TestWhatWasAskedForSaysWhatBecameOfIt(t *testing.T) {
	path := socketPath(t)
	listener := listen(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, listener, willing{sample}, quiet()) }()
	done, err := NewClient(path).Reload(t.Context())
	require.NoError(t, err)
	assert.Equal(t, reloaded, done)
	next, err := NewClient(path).Upgrade(t.Context())
	require.NoError(t, err)
	assert.Equal(t, upgraded, next)
	drained, err := NewClient(path).Drain(t.Context())
	require.NoError(t, err)
	assert.Equal(t, status.Drain{Connections: 3}, drained)
	cancel()
	require.NoError(t, <-ended)
}

func TestARefusalSaysAllReasons(t *testing.T) {
	path := socketPath(t)
	startServer(t, path, quiet())
	_, reloadErr := NewClient(path).Reload(t.Context())
	_, upgradeErr := NewClient(path).Upgrade(t.Context())
	for _, err := range []error{reloadErr, upgradeErr} {
		var refused *RefusedError
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, errRefused, refused)
		assert.EqualError(t, err, "control socket "+path+": one\ntwo")
	}
}

// slow is an instance whose changes take longer than any other request may.
type slow struct {
	canned
	asked chan struct{}
}

func (s slow) Upgrade(ctx context.Context) (status.Upgrade, error) {
	close(s.asked)
	select {
	case <-time.After(max(requestTimeout, answerTimeout) + time.Second):
		return upgraded, nil
	case <-ctx.Done():
		return status.Upgrade{}, ctx.Err()
	}
}

// The one that answers for an upgrade has stopped by then: another process serves.
func TestAChangeThatTakesLongIsAnsweredAlsoWhenTheServerStops(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	t.Parallel()
	path := socketPath(t)
	listener := listen(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	instance := slow{sample, make(chan struct{})}
	go func() { ended <- Serve(ctx, listener, instance, quiet()) }()
	go func() {
		<-instance.asked
		cancel()
	}()
	done, err := NewClient(path).Upgrade(t.Context())
	require.NoError(t, err)
	assert.Equal(t, upgraded, done)
	require.NoError(t, <-ended)
}

func TestAChangeIsGivenUpWhenItsClientGoes(t *testing.T) {
	path := socketPath(t)
	listener := listen(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	instance := slow{sample, make(chan struct{})}
	go func() { ended <- Serve(ctx, listener, instance, quiet()) }()
	client, leave := context.WithCancel(t.Context())
	go func() {
		<-instance.asked
		leave()
	}()
	_, err := NewClient(path).Upgrade(client)
	require.ErrorIs(t, err, context.Canceled)
	began := time.Now()
	cancel()
	require.NoError(t, <-ended)
	assert.Less(t, time.Since(began), requestTimeout, "nobody waits for the answer")
}
