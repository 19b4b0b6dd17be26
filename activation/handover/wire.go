package handover

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// The requests. The answer to one has its type, or that of failure.
const (
	hello                    = "Hello"
	sendListeningSockets     = "SendListeningSockets"
	beginDrainingConnections = "BeginDrainingConnections"
	sendConnections          = "SendConnections"
	shutdownOriginalNode     = "ShutdownOriginalNode"
	abort                    = "Abort"

	failure = "Error"
)

// Bounds of a message.
const (
	maxMessage = 64 << 10 // bytes
	maxText    = 1 << 10  // bytes of a text for people; what is longer is cut
)

// Codes of failures on which the other side acts.
const (
	codeBusy         = "busy"
	codeNotSupported = "not_supported"
)

// errMalformed means that a message is not one of this protocol.
var errMalformed = errors.New("not a message of the handover protocol")

// Label is what goes with a listening socket's descriptor.
type Label struct {
	// Name is FileDescriptorName= of a socket unit's, or says what one is for that is
	// no listener's: with a "/", "control/tcp". Others are known by their address.
	Name      string `json:"name,omitempty"`
	Origin    string `json:"origin,omitempty"`     // how it reached the original: "systemd", "store", "handover", "pidfd", "bind"
	StoreName string `json:"store_name,omitempty"` // sock.Listener.StoreName: with sock.AdoptStored a Unix socket owns its file again
}

// message is a request or an answer, with the fields of all of them.
type message struct {
	Type string `json:"type"`

	// Hello
	Protocol int      `json:"protocol,omitempty"`
	Version  string   `json:"version,omitempty"`
	Features []string `json:"features,omitempty"`

	// One for each descriptor beside the message, in their order.
	Sockets []Label `json:"sockets,omitempty"`
	More    bool    `json:"more,omitempty"` // ask again for the rest

	OverMS int64 `json:"over_ms,omitempty"` // BeginDrainingConnections

	// Error
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// encode fails for what is longer than a message may be.
func encode(m message) ([]byte, error) {
	m.Version, m.Message = cut(m.Version), cut(m.Message)
	data, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.Type, err)
	}
	if len(data) > maxMessage {
		return nil, fmt.Errorf("encode %s: %d bytes are more than the %d of a message", m.Type, len(data), maxMessage)
	}
	return data, nil
}

// decode takes what encode gives, and whatever else another version says. The error
// is errMalformed.
func decode(data []byte) (message, error) {
	if len(data) > maxMessage {
		return message{}, fmt.Errorf("%w: more than %d bytes", errMalformed, maxMessage)
	}
	var m message
	if err := json.Unmarshal(data, &m); err != nil {
		return message{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	switch {
	case m.Type == "":
		return message{}, fmt.Errorf("%w: it has no type", errMalformed)
	case len(m.Sockets) > sock.MaxRights:
		return message{}, fmt.Errorf("%w: %d sockets are more than the %d of a message", errMalformed, len(m.Sockets), sock.MaxRights)
	case m.OverMS < 0 || m.OverMS > math.MaxInt64/int64(time.Millisecond):
		return message{}, fmt.Errorf("%w: over_ms is out of range", errMalformed)
	}
	m.Type, m.Version, m.Message = cut(m.Type), cut(m.Version), cut(m.Message)
	return m, nil
}

// cut makes a text for people no longer than maxText.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "")
}

// fitting is how many of the sockets, from the first one on, one message takes.
// 0 = not even the first one.
func fitting(sockets []Socket) int {
	const frame = len(`{"type":"","sockets":[],"more":true}`) + len(sendListeningSockets)
	size := frame
	for n, s := range sockets {
		label, err := json.Marshal(s.Label)
		if err != nil {
			return n
		}
		size += len(label) + len(",")
		if n == sock.MaxRights || size > maxMessage {
			return n
		}
	}
	return len(sockets)
}
