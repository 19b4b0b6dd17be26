package vmtest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

func TestRedisClientsOfASocketUnit(t *testing.T) {
	const config = `
[listener.redis]
upstream = "redis"
[upstream.redis]
servers = "tcp://127.0.0.1:6379"
`
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(config)
		g.DropIn("holdfast.socket", "[Socket]\nFileDescriptorName=redis\nListenStream=\nListenStream=6380\n")
		g.StartUnit("redis", "redis-server", "--save", "")
		g.Run("systemctl", "start", "holdfast.socket")
		assert.Equal(t, "OK", g.Run("redis-cli", "-p", "6380", "set", "key", "value"))
		assert.Equal(t, "value", g.Run("redis-cli", "-p", "6380", "get", "key"))
		out := g.Run("redis-benchmark", "-p", "6380", "-c", "50", "-n", "2000", "-t", "get,set", "-q")
		assert.NotContains(t, out, "Error")
		assert.GreaterOrEqual(t, g.Status().Connections.Accepted, 50)
	})
}
