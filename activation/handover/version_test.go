package handover

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

func TestNeighbouringReleasesFindAProtocol(t *testing.T) {
	for _, tt := range []struct {
		own, oldest, theirs, want int
	}{
		{own: 2, oldest: 1, theirs: 2, want: 2},
		{own: 2, oldest: 1, theirs: 1, want: 1},
		{own: 2, oldest: 1, theirs: 3, want: 2}, // the newer one speaks it, too
		{own: 3, oldest: 2, theirs: 1, want: 0},
		{own: 1, oldest: 1, theirs: 0, want: 0},
		{own: 1, oldest: 1, theirs: -5, want: 0},
		{own: 1, oldest: 1, theirs: 1000, want: 1}, // it will leave when that is too old
	} {
		got, err := negotiate(tt.own, tt.oldest, tt.theirs)
		assert.Equal(t, tt.want, got, "%+v", tt)
		assert.Equal(t, tt.want == 0, err != nil, "%+v", tt)
	}
}

func TestOnlyFeaturesOfBothSidesAreUsed(t *testing.T) {
	assert.Empty(t, both(nil))
	assert.Empty(t, both([]string{"time_travel"}))
	assert.Equal(t, features, both([]string{featureConnections, "time_travel", featureHandoverSocket, featureHandoverSocket}))
}

// talk makes requests as text, and gives the answers.
func talk(t *testing.T, s *Session, request string) (message, []*sock.FD) {
	t.Helper()
	require.NoError(t, sendRaw(s.conn, request, nil))
	answer, fds, err := s.conn.receive(deadline(t))
	require.NoError(t, err)
	return answer, fds
}

func TestANewerReplacementTakesOver(t *testing.T) {
	path := socketPath(t)
	old, serving := start(t, path, Options{Version: "1.0"})
	s := dialSession(t, path)
	answer, _ := talk(t, s, `{"type":"Hello","protocol":2,"version":"9.0","features":["time_travel","handover_socket"],"mood":{"good":true}}`)
	assert.Equal(t, message{Type: hello, Protocol: 1, Version: "1.0", Features: []string{"handover_socket"}}, answer)
	answer, _ = talk(t, s, `{"type":"SendThoughts","depth":7}`)
	assert.Equal(t, message{Type: failure, Code: codeNotSupported, Message: "not supported"}, answer)
	answer, fds := talk(t, s, `{"type":"SendListeningSockets","also":["tun"]}`)
	assert.Len(t, answer.Sockets, 2)
	assert.Len(t, fds, 2)
	closeAll(fds)
	answer, _ = talk(t, s, `{"type":"BeginDrainingConnections","over_ms":2000,"gently":true}`)
	assert.Equal(t, message{Type: beginDrainingConnections}, answer)
	answer, _ = talk(t, s, `{"type":"SendConnections"}`)
	assert.Equal(t, message{Type: failure, Code: codeNotSupported, Message: "not supported"}, answer, "it has not said that it can")
	answer, fds = talk(t, s, `{"type":"ShutdownOriginalNode"}`)
	assert.Equal(t, shutdownOriginalNode, answer.Type)
	require.Len(t, fds, 1)
	serving.awaitEnd(t)
	assert.Equal(t, []string{"sockets", "drain 2s", "shutdown"}, old.heard())

	next := adoptHandoverSocket(fds[0], answer.Sockets[0].StoreName)
	require.NotNil(t, next)
	require.NoError(t, next.Close())
	assert.NoFileExists(t, path)
}

func TestAnOlderReplacementTakesOver(t *testing.T) {
	path := socketPath(t)
	_, serving := start(t, path, Options{})
	s := dialSession(t, path)
	answer, _ := talk(t, s, `{"type":"Hello","protocol":1}`)
	assert.Equal(t, message{Type: hello, Protocol: 1}, answer)
	_, fds := talk(t, s, `{"type":"SendListeningSockets"}`)
	closeAll(fds)
	talk(t, s, `{"type":"BeginDrainingConnections"}`)
	answer, fds = talk(t, s, `{"type":"ShutdownOriginalNode"}`)
	assert.Equal(t, message{Type: shutdownOriginalNode}, answer)
	require.Empty(t, fds, "it does not know what to do with the handover socket")
	assert.NoFileExists(t, path, "there must be room for one of its own")
	serving.awaitEnd(t)
}

func TestAReplacementThatIsTooOldIsToldSo(t *testing.T) {
	path := socketPath(t)
	old, _ := start(t, path, Options{})
	s := dialSession(t, path)
	answer, _ := talk(t, s, `{"type":"Hello","protocol":0}`)
	assert.Equal(t, message{Type: failure, Message: "it speaks handover protocol 0, this version 1 to 1"}, answer)
	require.NoError(t, s.Close())
	old.awaitAbandoned(t)
	takeOver(t, path, "replacement")
}

func TestAnOriginalOfAnotherVersionIsTakenOver(t *testing.T) {
	for name, answers := range map[string][]said{
		"newer": {
			{data: `{"type":"Hello","protocol":1,"version":"9.0","features":["time_travel"],"mood":["good"]}`},
			{data: `{"type":"SendListeningSockets","sockets":[{"name":"web","mtu":1500}],"checksum":"0xff"}`, fds: 1},
			{data: `{"type":"BeginDrainingConnections"}`},
			{data: `{"type":"ShutdownOriginalNode","remember":"me"}`},
		},
		"older": {
			{data: `{"type":"Hello","protocol":1}`},
			{data: `{"type":"SendListeningSockets","sockets":[{"name":"web"}]}`, fds: 1},
			{data: `{"type":"BeginDrainingConnections"}`},
			{data: `{"type":"ShutdownOriginalNode"}`},
		},
		"one that passes something else on": {
			{data: `{"type":"Hello","protocol":1,"features":["handover_socket"]}`},
			{data: `{"type":"SendListeningSockets","sockets":[{"name":"web"}]}`, fds: 1},
			{data: `{"type":"BeginDrainingConnections"}`},
			{data: `{"type":"ShutdownOriginalNode","sockets":[{},{}]}`, fds: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := socketPath(t)
			answerWith(answers...)(t, path)
			s := dialSession(t, path)
			_, err := s.Hello(deadline(t), "")
			require.NoError(t, err)
			got, err := s.SendListeningSockets(deadline(t))
			require.NoError(t, err)
			require.Len(t, got, 1)
			assert.Equal(t, Label{Name: "web"}, got[0].Label)
			closeReceived(t, got)
			require.NoError(t, s.BeginDrainingConnections(deadline(t), 0))
			next, err := s.ShutdownOriginalNode(deadline(t))
			require.NoError(t, err)
			assert.Nil(t, next)
			require.NoError(t, s.Close())
		})
	}
}

func TestAnOriginalThatDoesNotKnowARequestSaysSo(t *testing.T) {
	path := socketPath(t)
	answerWith(
		said{data: `{"type":"Hello","protocol":1}`},
		said{data: `{"type":"SendListeningSockets"}`},
		said{data: `{"type":"Error","code":"not_supported","message":"not supported"}`},
		said{data: `{"type":"Error","code":"a_new_one","message":"not on Sundays"}`},
		said{data: `{"type":"BeginDrainingConnections"}`},
		said{data: `{"type":"ShutdownOriginalNode"}`},
	)(t, path)
	s := dialSession(t, path)
	_, err := s.Hello(deadline(t), "")
	require.NoError(t, err)
	got, err := s.SendListeningSockets(deadline(t))
	require.NoError(t, err)
	assert.Empty(t, got)
	require.ErrorIs(t, s.BeginDrainingConnections(deadline(t), 0), ErrNotSupported)
	require.ErrorContains(t, s.BeginDrainingConnections(deadline(t), 0), "refused: not on Sundays")
	require.NoError(t, s.BeginDrainingConnections(deadline(t), 0))
	_, err = s.ShutdownOriginalNode(deadline(t))
	require.NoError(t, err)
	require.NoError(t, s.Close())
}
