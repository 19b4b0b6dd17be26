package activation_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// A thousand listeners, each with a socket that is held and one that arrives. Most
// of the time goes into looking at what arrived.
func BenchmarkAcquire(b *testing.B) {
	const listeners = 1000
	var wants []activation.Want
	var held []activation.Socket
	offers := make([]activation.Offer, 0, listeners)
	for i := range listeners {
		h, err := sock.Listen(anyPort, sock.Options{})
		require.NoError(b, err)
		defer h.Close()
		o, err := sock.Listen(sock.Unix(fmt.Sprintf("@holdfast-bench-%d-%d", os.Getpid(), i)), sock.Options{})
		require.NoError(b, err)
		defer o.Close()
		wants = append(wants, want(fmt.Sprint("listener", i), o.Addr(), h.Addr()))
		held = append(held, activation.Socket{Listener: h, Origin: activation.Bind})
		offers = append(offers, activation.Offer{Name: o.StoreName(), FD: o.FD})
	}
	for b.Loop() {
		source := &activation.Source{Origin: activation.Store, Offers: offers}
		r, err := activation.Acquire(wants, held, []*activation.Source{source})
		require.NoError(b, err)
		require.Empty(b, r.Idle)
		require.Empty(b, r.Unwanted)
	}
}
