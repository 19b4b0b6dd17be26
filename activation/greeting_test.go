package activation_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// greeting connects, as soon as somebody listens, and reads to the end.
func greeting(t *testing.T, network, address string) string {
	t.Helper()
	var text string
	require.Eventually(t, func() bool {
		c, err := net.DialTimeout(network, address, time.Second)
		if err != nil {
			return false
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return false
		}
		all, err := io.ReadAll(c)
		if err != nil {
			return false
		}
		text = string(all)
		return true
	}, 10*time.Second, 5*time.Millisecond, "nobody listens on %s %s", network, address)
	return text
}
