package handover

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

var wireExamples = map[string]message{
	`{"type":"Hello","protocol":1,"version":"1.5.0","features":["handover_socket","connections"]}`: {
		Type: hello, Protocol: 1, Version: "1.5.0", Features: []string{"handover_socket", "connections"},
	},
	`{"type":"SendListeningSockets"}`: {Type: sendListeningSockets},
	`{"type":"SendListeningSockets","sockets":[{"name":"web","origin":"systemd","store_name":"socket/3f"},{"origin":"bind","store_name":"socket/41.1a.2b07"}],"more":true}`: {
		Type: sendListeningSockets, More: true, Sockets: []Label{
			{Name: "web", Origin: "systemd", StoreName: "socket/3f"}, {Origin: "bind", StoreName: "socket/41.1a.2b07"},
		},
	},
	`{"type":"BeginDrainingConnections","over_ms":30000}`:                           {Type: beginDrainingConnections, OverMS: 30000},
	`{"type":"ShutdownOriginalNode","sockets":[{"store_name":"socket/7.1a.2b01"}]}`: {Type: shutdownOriginalNode, Sockets: []Label{{StoreName: "socket/7.1a.2b01"}}},
	`{"type":"Abort"}`: {Type: abort},
	`{"type":"Error","code":"busy","message":"another replacement is taking over"}`: {Type: failure, Code: codeBusy, Message: "another replacement is taking over"},
}

func TestMessagesOnTheWire(t *testing.T) {
	for text, m := range wireExamples {
		data, err := encode(m)
		require.NoError(t, err)
		assert.Equal(t, text, string(data))
		got, err := decode([]byte(text))
		require.NoError(t, err)
		assert.Equal(t, m, got)
	}
}

func TestTheExamplesOfTheDocumentAreMessages(t *testing.T) {
	doc, err := os.ReadFile("../../docs/handover.md")
	require.NoError(t, err)
	examples := regexp.MustCompile("(?m)^(?:```json\n)?({\"type\".*})$").FindAllSubmatch(doc, -1)
	require.GreaterOrEqual(t, len(examples), len(wireExamples))
	for _, e := range examples {
		m, err := decode(e[1])
		require.NoError(t, err)
		again, err := encode(m)
		require.NoError(t, err)
		assert.Equal(t, string(e[1]), string(again), "a field of it is not known")
	}
}

func TestNonsenseIsNoMessage(t *testing.T) {
	for name, s := range nonsense {
		if s.fds > 0 || strings.Contains(name, "announced") {
			continue // the message is one
		}
		_, err := decode([]byte(s.data))
		assert.ErrorIs(t, err, errMalformed, name)
	}
	_, err := decode([]byte(`{"type":"SendListeningSockets","sockets":[{}` + strings.Repeat(",{}", sock.MaxRights) + `]}`))
	assert.ErrorIs(t, err, errMalformed)
}

func TestTextsForPeopleAreCut(t *testing.T) {
	long := strings.Repeat("ä", 2*maxText)
	data, err := encode(message{Type: failure, Message: long})
	require.NoError(t, err)
	assert.Less(t, len(data), 2*maxText)
	m, err := decode([]byte(`{"type":"Error","message":"x` + long + `","version":"` + long + `"}`))
	require.NoError(t, err)
	assert.Equal(t, "x"+long[:maxText-2], m.Message, "a letter is not cut in two")
	assert.Len(t, m.Version, maxText)
}

func TestAMessageThatIsTooLongIsNotSent(t *testing.T) {
	_, err := encode(message{Type: hello, Features: []string{strings.Repeat("x", maxMessage)}})
	require.ErrorContains(t, err, "more than the 65536 of a message")
}

func TestASliceIsAsLargeAsAMessageTakes(t *testing.T) {
	for name, tt := range map[string]struct {
		label Label
		have  int
		want  int
	}{
		"none":                              {Label{}, 0, 0},
		"some":                              {Label{Name: "web"}, 3, 3},
		"as many as allowed":                {Label{}, sock.MaxRights, sock.MaxRights},
		"more":                              {Label{}, 1000, sock.MaxRights},
		"long names":                        {Label{Name: strings.Repeat("x", 255), Origin: "handover", StoreName: "socket/ffffffffffffffff.ffffffff.ffffffffffffffff"}, 1000, 186},
		"two of three":                      {Label{Name: strings.Repeat("x", 25<<10)}, 3, 2},
		"names of which each letter is six": {Label{Name: strings.Repeat("<", 255)}, 1000, 42},
		"not even one":                      {Label{Name: strings.Repeat("x", maxMessage)}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			sockets := make([]Socket, tt.have)
			for n := range sockets {
				sockets[n].Label = tt.label
			}
			n := fitting(sockets)
			assert.Equal(t, tt.want, n)
			m := message{Type: sendListeningSockets, More: true}
			for _, s := range sockets[:n] {
				m.Sockets = append(m.Sockets, s.Label)
			}
			_, err := encode(m)
			require.NoError(t, err)
			if n < len(sockets) && n < sock.MaxRights {
				m.Sockets = append(m.Sockets, tt.label)
				_, err = encode(m)
				require.Error(t, err, "one more fits")
			}
		})
	}
}

func TestASocketWithANameThatFitsNowhereIsRefused(t *testing.T) {
	path := socketPath(t)
	old := newInstance("original", listen(t, loopback(0)))
	old.labels = []Label{{Name: strings.Repeat("x", maxMessage)}}
	startInstance(t, path, old, Options{}, quiet())
	s := reach(t, path, 1)
	_, err := s.SendListeningSockets(deadline(t))
	require.ErrorContains(t, err, "what goes with it is too long")
	require.NoError(t, s.Abort(deadline(t)))
}

func FuzzDecode(f *testing.F) {
	for text := range wireExamples {
		f.Add([]byte(text))
	}
	for _, s := range nonsense {
		f.Add([]byte(s.data[:min(len(s.data), 100)]))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decode(data)
		if err != nil {
			require.ErrorIs(t, err, errMalformed)
			return
		}
		require.LessOrEqual(t, len(m.Type)+len(m.Version)+len(m.Message), 3*maxText)
		require.LessOrEqual(t, len(m.Sockets), sock.MaxRights)
		require.GreaterOrEqual(t, m.OverMS, int64(0))
		again, err := encode(m)
		if err != nil {
			return // what is escaped is longer
		}
		back, err := decode(again)
		require.NoError(t, err)
		require.Equal(t, normal(t, m), normal(t, back))
	})
}

// normal does not tell an empty list from none.
func normal(t *testing.T, m message) string {
	t.Helper()
	data, err := json.Marshal(m)
	require.NoError(t, err)
	return string(data)
}
