package handover

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// impatient is an original that gives a replacement little time.
var impatient = Options{StepTimeout: 100 * time.Millisecond}

// reach makes the first requests of a session.
func reach(t *testing.T, path string, step int) *Session {
	t.Helper()
	s := dialSession(t, path)
	for _, request := range protocolSteps[:step] {
		_, fds, err := s.exchange(deadline(t), message{Type: request, Protocol: protocol})
		closeAll(fds)
		require.NoError(t, err)
	}
	return s
}

func TestAReplacementThatStallsAtAnyStepIsAbandoned(t *testing.T) {
	for step := range protocolSteps {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			path := socketPath(t)
			old := threeSockets(t)
			startInstance(t, path, old, impatient, quiet())
			clients := startLoad(t, old.sockets)
			s := reach(t, path, step)
			if step > 0 {
				old.awaitAbandoned(t)
			}
			_, _, err := s.conn.receive(deadline(t))
			require.Error(t, err, "the connection must end")
			_, _, err = s.exchange(deadline(t), message{Type: protocolSteps[step]})
			require.ErrorIs(t, err, ErrGone)

			requireServedBy(t, "original", old)
			third, _ := takeOver(t, path, "third")
			clients.requireNoneLost(t)
			requireServedBy(t, "third", third)
		})
	}
}

func TestWhileNobodyElseMayAcceptPatienceIsShort(t *testing.T) {
	for _, tt := range []struct {
		state         state
		options, want time.Duration
	}{
		{sent, time.Minute, time.Minute},
		{draining, time.Minute, drainingTimeout},
		{draining, time.Second, time.Second},
	} {
		s := originalSession{server: &server{options: Options{StepTimeout: tt.options}}, state: tt.state}
		assert.Equal(t, tt.want, s.patience())
	}
}

// said is something that no replacement says.
type said struct {
	data string
	fds  int // descriptors beside it
}

var nonsense = map[string]said{
	"no JSON":                  {data: "GET / HTTP/1.1\r\n\r\n"},
	"NUL":                      {data: "\x00"},
	"half an object":           {data: `{"type":"Hello","protocol":1`},
	"two objects":              {data: `{"type":"Abort"}{"type":"Abort"}`},
	"no object":                {data: `[]`},
	"no type":                  {data: `{}`},
	"a type that is no text":   {data: `{"type":1}`},
	"deep":                     {data: strings.Repeat("[", 32<<10)},
	"negative time":            {data: `{"type":"BeginDrainingConnections","over_ms":-1}`},
	"time that overflows":      {data: `{"type":"BeginDrainingConnections","over_ms":9223372036854775807}`},
	"a number that overflows":  {data: `{"type":"BeginDrainingConnections","over_ms":1e400}`},
	"too long":                 {data: `{"type":"Hello","protocol":1,"version":"` + strings.Repeat("x", maxMessage) + `"}`},
	"much too long":            {data: strings.Repeat("x", 180<<10)},
	"a descriptor":             {data: `{"type":"Hello","protocol":1}`, fds: 1},
	"descriptors announced":    {data: `{"type":"Hello","protocol":1,"sockets":[{},{}]}`, fds: 2},
	"no announced descriptors": {data: `{"type":"Hello","protocol":1,"sockets":[{},{}]}`},
	"253 descriptors":          {data: `x`, fds: sock.MaxRights},
}

func TestNonsenseAtAnyStepChangesNothing(t *testing.T) {
	path := socketPath(t)
	old := threeSockets(t)
	startInstance(t, path, old, Options{}, quiet())
	clients := startLoad(t, old.sockets)
	for name, said := range nonsense {
		for step := range protocolSteps {
			t.Run(fmt.Sprint(name, " ", step), func(t *testing.T) {
				s := reach(t, path, step)
				say(t, s.conn, said)
				answer, _, err := s.conn.receive(deadline(t))
				require.NoError(t, err)
				require.Equal(t, failure, answer.Type)
				require.NotEmpty(t, answer.Message)
				_, _, err = s.conn.receive(deadline(t))
				require.Error(t, err, "that is the end")
				require.NoError(t, s.Close())
				if step > 0 {
					old.awaitAbandoned(t)
				}
			})
		}
	}
	assert.NotContains(t, old.heard(), "shutdown")
	takeOver(t, path, "third")
	clients.requireNoneLost(t)
}

func say(t *testing.T, c *conn, s said) {
	t.Helper()
	require.NoError(t, sendRaw(c, s.data, stderrs(s.fds)))
}

func sendRaw(c *conn, data string, fds []int) error {
	var sendErr error
	err := c.raw.Write(func(fd uintptr) bool {
		sendErr = sock.SendRights(int(fd), []byte(data), fds)
		return sendErr != unix.EAGAIN //nolint:errorlint // a bare errno
	})
	if err != nil {
		return err
	}
	return sendErr
}

func TestAReplacementThatAsksAndAsksIsLetGo(t *testing.T) {
	path := socketPath(t)
	old, _ := start(t, path, Options{})
	s := reach(t, path, 1)
	for range maxRefusals {
		_, _, err := s.exchange(deadline(t), message{Type: shutdownOriginalNode})
		require.ErrorIs(t, err, errSocketsFirst)
		require.NoError(t, s.conn.send(deadline(t), message{Type: shutdownOriginalNode}))
		answer, _, err := s.conn.receive(deadline(t))
		require.NoError(t, err)
		require.Equal(t, errSocketsFirst.Error(), answer.Message)
	}
	old.awaitAbandoned(t)
	_, _, err := s.conn.receive(deadline(t))
	require.Error(t, err)
	takeOver(t, path, "third")
}

// It asks without reading what it is told, until the original cannot answer.
func TestAReplacementThatDoesNotReadIsLetGo(t *testing.T) {
	path := socketPath(t)
	old := threeSockets(t)
	startInstance(t, path, old, Options{}, quiet())
	s := reach(t, path, 1)
	ctx := deadline(t)
	go func() {
		for s.conn.send(ctx, message{Type: sendListeningSockets}) == nil {
		}
	}()
	old.awaitAbandoned(t)
	require.NoError(t, s.Close())
	takeOver(t, path, "third")
}

// Each of them may take five seconds when nobody waits.
func TestSilentConnectionsDoNotKeepAReplacementAway(t *testing.T) {
	path := socketPath(t)
	l, err := Listen(path)
	require.NoError(t, err)
	for range 5 * maxPeers {
		dialSession(t, path)
	}
	s := dialSession(t, path)
	old := newOriginal(t)
	t.Cleanup(func() { old.close(t, true) })
	serving := serve(l, old, Options{}, quiet())
	t.Cleanup(func() { serving.end(t) })
	ctx, cancel := context.WithTimeout(t.Context(), 3*helloTimeout)
	defer cancel()
	_, err = s.Hello(ctx, "test")
	require.NoError(t, err)
	assert.Empty(t, old.heard(), "nothing was asked for by the others")
}

func TestStrangersDoNotFloodTheLog(t *testing.T) {
	path := socketPath(t)
	log := &logBuffer{}
	i := newInstance("original", listen(t, loopback(0)))
	startInstance(t, path, i, Options{}, log.logger())
	began := time.Now()
	for range 50 {
		s := dialSession(t, path)
		say(t, s.conn, said{data: "hi"})
		_, _, err := s.conn.receive(deadline(t))
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
	for range 50 { // who only looks whether somebody is there is no stranger
		require.NoError(t, dialSession(t, path).Close())
	}
	takeOver(t, path, "replacement")
	lines := log.count("level=WARN")
	assert.Positive(t, lines)
	assert.LessOrEqual(t, lines, 1+int(time.Since(began)/logEvery))
}

func TestServeEndsWithItsContextAtAnyStep(t *testing.T) {
	for step := range protocolSteps {
		path := socketPath(t)
		old := threeSockets(t)
		serving := startInstance(t, path, old, Options{}, quiet())
		s := reach(t, path, step)
		serving.end(t)
		_, _, err := s.exchange(deadline(t), message{Type: protocolSteps[step], Protocol: protocol})
		require.ErrorIs(t, err, ErrGone)
		assert.NoFileExists(t, path)
		if step > 0 {
			old.awaitAbandoned(t)
		}
		requireServedBy(t, "original", old)
	}
}

func TestServeLeavesTheFileOfALaterInstance(t *testing.T) {
	path := socketPath(t)
	_, serving := start(t, path, Options{})
	require.NoError(t, os.Remove(path))
	later, err := Listen(path)
	require.NoError(t, err)
	defer later.Close()
	serving.end(t)
	assert.FileExists(t, path)
}

func TestWhatListensAtThePathIsNoOriginal(t *testing.T) {
	for name, tt := range map[string]struct {
		at   func(t *testing.T, path string)
		want string
		is   error
	}{
		"nothing":                    {func(*testing.T, string) {}, "", ErrNobody},
		"a stale file":               {leaveStale, "", ErrNobody},
		"no directory":               {func(t *testing.T, path string) { require.NoError(t, os.RemoveAll(dirOf(path))) }, "", ErrNobody},
		"a stream":                   {listenStream, "another program listens there: its socket is of another type", nil},
		"a path too long":            {func(*testing.T, string) {}, "file name too long", nil},
		"who closes":                 {answerWith(said{}), "Hello: it has gone", ErrGone},
		"who speaks HTTP":            {answerWith(said{data: "HTTP/1.1 400\r\n\r\n"}), "another program, or a broken one: not a message", errMalformed},
		"who answers wrong":          {answerWith(said{data: `{"type":"Abort"}`}), `an answer of type "Abort"`, errMalformed},
		"who gives too much":         {answerWith(said{data: `{"type":"Hello","protocol":1,"sockets":[{}]}`, fds: 1}), "descriptors beside the answer", errMalformed},
		"who gives with an error":    {answerWith(said{data: `{"type":"Error","sockets":[{}]}`, fds: 1}), "descriptors beside an error", errMalformed},
		"who counts wrong":           {answerWith(said{data: `{"type":"Hello","protocol":1}`, fds: 3}), "Hello for 0 sockets has 3 descriptors", errMalformed},
		"who talks too much":         {answerWith(said{data: strings.Repeat("x", maxMessage+1)}), "more than 65536 bytes", errMalformed},
		"who wants another protocol": {answerWith(said{data: `{"type":"Hello","protocol":7}`}), "it wants handover protocol 7, this version speaks 1 to 1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			path := socketPath(t)
			if name == "a path too long" {
				path += strings.Repeat("x", 108)
			}
			tt.at(t, path)
			s, err := Dial(path)
			if err == nil {
				defer s.Close()
				_, err = s.Hello(deadline(t), "")
			}
			require.Error(t, err)
			require.ErrorContains(t, err, tt.want)
			if tt.is != nil {
				require.ErrorIs(t, err, tt.is)
			}
		})
	}
}

func dirOf(path string) string { return path[:strings.LastIndex(path, "/")] }

func leaveStale(t *testing.T, path string) {
	t.Helper()
	l, err := Listen(path)
	require.NoError(t, err)
	require.NoError(t, l.FD.Close())
}

func listenStream(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
}

// answerWith listens like an original and has one answer to whatever is asked.
func answerWith(answers ...said) func(t *testing.T, path string) {
	return func(t *testing.T, path string) {
		t.Helper()
		l, err := Listen(path)
		require.NoError(t, err)
		a, err := newAcceptor(l)
		require.NoError(t, err)
		ctx := deadline(t)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			fd, err := a.accept(ctx)
			if err != nil {
				return
			}
			c, err := newConn(fd)
			if err != nil {
				return
			}
			defer c.Close()
			for _, answer := range answers {
				if _, _, err := c.receive(ctx); err != nil || answer.data == "" {
					return
				}
				_ = sendRaw(c, answer.data, stderrs(answer.fds))
			}
			_, _, _ = c.receive(ctx) // until the other side closes
		}()
		t.Cleanup(func() {
			<-ended
			assert.NoError(t, a.Close())
			assert.NoError(t, l.Close())
		})
	}
}

func stderrs(n int) []int {
	fds := make([]int, n)
	for k := range fds {
		fds[k] = unix.Stderr
	}
	return fds
}

func TestAnOriginalThatPromisesMoreAndGivesNothingIsLeft(t *testing.T) {
	path := socketPath(t)
	answerWith(said{data: `{"type":"Hello","protocol":1}`},
		said{data: `{"type":"SendListeningSockets","sockets":[{"name":"a"},{}],"more":true}`, fds: 2},
		said{data: `{"type":"SendListeningSockets","more":true}`})(t, path)
	s := dialSession(t, path)
	_, err := s.Hello(deadline(t), "")
	require.NoError(t, err)
	got, err := s.SendListeningSockets(deadline(t))
	require.ErrorIs(t, err, errMalformed)
	require.Empty(t, got, "what had come is closed")
	require.NoError(t, s.Close())
}

func TestAFullQueueIsAHungOriginal(t *testing.T) {
	path := socketPath(t)
	l, err := Listen(path)
	require.NoError(t, err)
	defer l.Close()
	require.NoError(t, unix.Listen(l.FD.Raw(), 1))
	require.Eventually(t, func() bool {
		s, err := Dial(path)
		if err == nil {
			t.Cleanup(func() { _ = s.Close() })
			return false
		}
		assert.ErrorIs(t, err, ErrHung)
		return true
	}, patience, tick)
}

func TestACallThatIsGivenUpEndsNoOther(t *testing.T) {
	path := socketPath(t)
	start(t, path, Options{})
	s := dialSession(t, path)
	for range 50 {
		// Its end comes at the same moment as the answer.
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Microsecond)
		_, err := s.Hello(ctx, "")
		cancel()
		if err == nil {
			require.NoError(t, s.Abort(deadline(t)))
		}
		require.NoError(t, s.Close())
		s = dialSession(t, path)
	}
}
