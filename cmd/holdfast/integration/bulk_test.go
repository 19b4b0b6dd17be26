package integration

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// bulk sends 2 GB through the proxy each way at once and compares hashes. Unix
// sockets, and -short, get less.
func bulk(t *testing.T) traffic {
	pairs := pairings(t, "bulk")
	return traffic{"bulk", routes(pairs), func(t *testing.T, _ *testbed.Holdfast) {
		for _, p := range pairs {
			size := unlessShort(256<<20, 64<<20)
			if p.name == "TCP-TCP" {
				size = unlessShort(2<<30, 256<<20)
			}
			t.Run(p.name, func(t *testing.T) {
				client, server := p.open(t)
				atServer := make(chan sums, 1)
				go func() { atServer <- exchange(t, server, int64(size)) }() // ends with the stream
				fromServer, fromClient := exchange(t, client, int64(size)), <-atServer
				assert.Equal(t, fromClient.sent, fromServer.received, "hash of what the server sent")
				assert.Equal(t, fromServer.sent, fromClient.received, "hash of what the client sent")
			})
		}
	}}
}

// sums are the hashes of both directions of a connection, seen from one end.
type sums struct{ sent, received [sha256.Size]byte }

// exchange sends noise and receives at the same time, neither waiting for the
// other: an end that stops reading while it cannot write can hang by itself.
func exchange(t *testing.T, conn stream, size int64) (s sums) {
	assert.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	sent := make(chan struct{})
	go func() { // ends when all is sent or the connection is over
		defer close(sent)
		hash := sha256.New()
		_, err := io.Copy(io.MultiWriter(conn, hash), newNoise(size))
		assert.NoError(t, err)
		assert.NoError(t, conn.CloseWrite())
		hash.Sum(s.sent[:0])
	}()
	hash := sha256.New()
	n, err := io.CopyBuffer(hash, struct{ io.Reader }{conn}, make([]byte, 256<<10))
	assert.NoError(t, err)
	assert.Equal(t, size, n, "bytes received")
	hash.Sum(s.received[:0])
	<-sent
	return s
}

// noise yields bytes of which no 4 KiB are alike, faster than a random source.
type noise struct {
	left int64
	page [4096]byte
}

func newNoise(size int64) *noise {
	n := &noise{left: size}
	_, _ = rand.Read(n.page[:])
	return n
}

func (n *noise) Read(p []byte) (int, error) {
	if n.left == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), n.left)]
	for at := 0; at < len(p); at += len(n.page) {
		binary.NativeEndian.PutUint64(n.page[:], uint64(n.left))
		n.left -= int64(copy(p[at:], n.page[:]))
	}
	return len(p), nil
}
