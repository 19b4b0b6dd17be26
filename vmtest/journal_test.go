package vmtest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

func TestTheJournalHasPrioritiesAndFields(t *testing.T) {
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToApp())
		g.DropIn("holdfast.socket", "[Socket]\nFileDescriptorName=unknown\n")
		g.Run("systemctl", "start", "holdfast.socket")
		g.Try("systemctl", "start", "holdfast.service") // its listener has no socket
		refused := g.Journal("holdfast.service", "PRIORITY=3")
		require.NotEmpty(t, refused)
		assert.Contains(t, refused[0]["MESSAGE"], "listener web")

		g.Run("systemctl", "stop", "holdfast.service")
		g.DropIn("holdfast.socket", "[Socket]\nListenStream=8081\n")
		g.Write(vmtest.LocalUnits+"holdfast-other.socket", "[Socket]\nService=holdfast.service\nListenStream=8082\n")
		g.Run("systemctl", "restart", "holdfast.socket", "holdfast-other.socket")
		g.Run("systemctl", "start", "holdfast.service")

		serving := g.Journal("holdfast.service", "PRIORITY=6", "CONFIG="+vmtest.ConfigFile)
		require.Len(t, serving, 1)
		assert.Equal(t, "holdfast", serving[0]["SYSLOG_IDENTIFIER"])
		assert.Equal(t, "journal", serving[0]["_TRANSPORT"])
		assert.Len(t, g.Journal("holdfast.service", "PRIORITY=6", "LISTENER=web", "ORIGIN=systemd"), 2)
		assert.Len(t, g.Journal("holdfast.service", "PRIORITY=4", "NAME=holdfast-other.socket"), 1)
	})
}
