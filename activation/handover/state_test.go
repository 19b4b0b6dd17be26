package handover

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEachRequestHasItsTime(t *testing.T) {
	const unknown = "Unknown"
	requests := []string{hello, sendListeningSockets, beginDrainingConnections, sendConnections, shutdownOriginalNode, abort, unknown}
	for s, want := range map[state][]error{
		fresh:    {nil, errNoHello, errNoHello, errNoHello, errNoHello, errNoHello, errNoHello},
		greeted:  {errSaidAlready, nil, errSocketsFirst, errDrainFirst, errSocketsFirst, nil, ErrNotSupported},
		sending:  {errSaidAlready, nil, errSocketsFirst, errDrainFirst, errSocketsFirst, nil, ErrNotSupported},
		sent:     {errSaidAlready, errSaidAlready, nil, errDrainFirst, errDrainFirst, nil, ErrNotSupported},
		draining: {errSaidAlready, errSaidAlready, errSaidAlready, nil, nil, nil, ErrNotSupported},
		handing:  {errSaidAlready, errSaidAlready, errSaidAlready, nil, errMoreFirst, nil, ErrNotSupported},
		handed:   {errSaidAlready, errSaidAlready, errSaidAlready, errSaidAlready, nil, nil, ErrNotSupported},
		over:     {errOver, errOver, errOver, errOver, errOver, errOver, errOver},
	} {
		for n, request := range requests {
			assert.Equal(t, want[n], s.allows(request), "state %d, %s", s, request)
		}
	}
}

func TestEachAnswerLeadsOn(t *testing.T) {
	for _, tt := range []struct {
		from    state
		request string
		answer  message
		to      state
	}{
		{fresh, hello, message{}, greeted},
		{greeted, sendListeningSockets, message{More: true}, sending},
		{greeted, sendListeningSockets, message{}, sent},
		{sending, sendListeningSockets, message{More: true}, sending},
		{sending, sendListeningSockets, message{}, sent},
		{sent, beginDrainingConnections, message{}, draining},
		{draining, shutdownOriginalNode, message{}, over},
		{draining, sendConnections, message{More: true}, handing},
		{handing, sendConnections, message{}, handed},
		{draining, sendConnections, message{}, handed},
		{handed, shutdownOriginalNode, message{}, over},
		{greeted, abort, message{}, over},
		{draining, abort, message{}, over},
	} {
		assert.Equal(t, tt.to, tt.from.after(tt.request, tt.answer), "%+v", tt)
	}
}

// The original does not trust the replacement to know the order.
func TestBothSidesKnowTheOrder(t *testing.T) {
	path := socketPath(t)
	old, _ := start(t, path, Options{})
	requests := []string{hello, sendListeningSockets, beginDrainingConnections, shutdownOriginalNode}
	for _, step := range []int{1, 2, 3} {
		s := dialSession(t, path)
		current := fresh
		for _, request := range requests[:step] {
			_, fds, err := s.exchange(deadline(t), message{Type: request, Protocol: protocol})
			require.NoError(t, err)
			closeAll(fds)
			current = current.after(request, message{})
		}
		for _, request := range slices.Concat(requests, []string{"Unknown"}) {
			want := current.allows(request)
			if want == nil {
				continue
			}
			_, _, err := s.exchange(deadline(t), message{Type: request})
			require.ErrorIs(t, err, want)
			answer, _ := talk(t, s, `{"type":"`+request+`","protocol":1}`)
			require.Equal(t, failure, answer.Type)
			require.Equal(t, want.Error(), answer.Message)
		}
		require.NoError(t, s.Abort(deadline(t)))
	}
	assert.NotContains(t, old.heard(), "shutdown")
}
