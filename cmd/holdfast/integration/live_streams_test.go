package integration

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// hashedStreams are connections over each pair of kinds, to servers that echo. Both ends
// of a stream are hashed.
func hashedStreams(t *testing.T) lasting {
	var routes []testbed.Route
	for _, p := range pairings(t, "stream") {
		routes = append(routes, p.route)
	}
	for i := range routes {
		server := &routes[i].Servers[0]
		if network, _ := testbed.Split(*server); network == "unix" {
			*server += ".echo"
		} else {
			*server = testbed.TCP(t)
		}
		listen(t, *server, echo)
	}
	return lasting{"hashed streams", routes, func(t *testing.T) func(*testing.T) {
		var all []*hashedStream
		for _, r := range routes {
			for range unlessShort(250, 25) {
				all = append(all, startStream(t, r.Listen[0]))
			}
		}
		for _, s := range all {
			<-s.answered
		}
		return func(t *testing.T) {
			for _, s := range all {
				close(s.over)
			}
			var bytes int64
			for _, s := range all {
				assert.NoError(t, <-s.ended)
				bytes += s.received
			}
			t.Logf("%d streams, %d MiB each way", len(all), bytes>>20)
		}
	}}
}

// hashedStream sends noise every now and then, and gets it back.
type hashedStream struct {
	over     chan struct{} // closed by its owner, who then waits for ended
	answered chan struct{} // closed when the first bytes have come back, or it has ended
	ended    chan error    // gets what went wrong
	received int64         // bytes, when it has ended
}

func startStream(t *testing.T, address string) *hashedStream {
	t.Helper()
	conn := dial(t, address)
	assert.NoError(t, conn.SetDeadline(time.Now().Add(5*time.Minute)))
	s := &hashedStream{over: make(chan struct{}), answered: make(chan struct{}), ended: make(chan error, 1)}
	go func() { // ends with the connection
		err := s.run(conn)
		if err != nil {
			err = fmt.Errorf("%s: %w", address, err)
		}
		s.ended <- err
	}()
	return s
}

func (s *hashedStream) run(conn stream) error {
	answered := sync.OnceFunc(func() { close(s.answered) })
	defer answered()
	sent, received := sha256.New(), sha256.New()
	sender := make(chan error, 1)
	go func() { sender <- s.send(conn, sent) }() // ends with the connection
	var err error
	s.received, err = io.Copy(writerFunc(func(p []byte) (int, error) {
		answered()
		return received.Write(p)
	}), struct{ io.Reader }{conn})
	_ = conn.Close()
	if err := errors.Join(err, <-sender); err != nil {
		return err
	}
	if [32]byte(sent.Sum(nil)) != [32]byte(received.Sum(nil)) {
		return fmt.Errorf("hashes differ after %d bytes", s.received)
	}
	return nil
}

func (s *hashedStream) send(conn stream, sum hash.Hash) error {
	for {
		if _, err := io.Copy(io.MultiWriter(conn, sum), newNoise(1+rand.N(int64(4<<10)))); err != nil {
			return err
		}
		select {
		case <-s.over:
			return conn.CloseWrite()
		case <-time.After(rand.N(500 * time.Millisecond)):
		}
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
