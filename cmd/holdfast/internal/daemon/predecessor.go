package daemon

import (
	"context"
	"time"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
)

// predecessor is the running process that a start takes over from: a session with one
// that answers, or what was seized of one that hangs.
type predecessor interface {
	// complete ends its part when this process accepts. Connections that do not go over
	// have that long to end. onTrial is called when this process accepts alone, if the
	// other one could accept again, with the files of the vault that it has lent.
	complete(ctx context.Context, over time.Duration, onTrial func(lent []fdstore.Held)) (inheritance, error)

	// giveUp leaves it as it was, if it was not ended.
	giveUp()
}

// inheritance is what a predecessor leaves at its end.
type inheritance struct {
	handover *sock.Listener // the handover socket; nil = it passes none on
	vault    []fdstore.Held // its connections, which it does not touch any more
	since    time.Time      // not before, at least
}
