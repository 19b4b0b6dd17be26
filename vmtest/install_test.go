package vmtest_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/vmtest"
	"github.com/holdfast-proxy/holdfast/vmtest/wire"
)

func TestTheInstructionsForInstallingAreTrue(t *testing.T) {
	const checkout = "/root/checkout"
	blocks := instructions(t, "Install under systemd")
	require.Len(t, blocks, 3, "the files, those for systemd 254, enabling")
	upgrading := instructions(t, "Upgrade")
	require.Len(t, upgrading, 1)
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		for _, name := range []string{
			"holdfast.toml", "sysusers.d/holdfast.conf",
			"systemd/holdfast.service", "systemd/holdfast.socket", "systemd/holdfast.service.d/254.conf",
		} {
			g.WritePackaged(checkout+"/packaging/"+name, name)
		}
		g.Run("install", "-D", wire.Dir+"/holdfast", checkout+"/bin/holdfast")
		g.StartEcho(app)
		defer g.Try("sh", "-c", "systemctl disable holdfast.socket holdfast.service; rm -rf "+checkout+
			" /usr/bin/holdfast /etc/holdfast /usr/lib/sysusers.d/holdfast.conf /usr/lib/systemd/system/holdfast*")

		follow := func(block string) { g.Run("sh", "-e", "-c", "cd "+checkout+"\n"+block) }
		follow(blocks[0])
		if g.Systemd >= 254 {
			follow(blocks[1])
		}
		follow(blocks[2])
		load := g.StartLoad(vmtest.Load{}, web)
		assert.Equal(t, []string{"tcp [::]:8080"}, socketsOf(g, "web", "systemd"))
		assert.Equal(t, "enabled\nenabled", g.Run("systemctl", "is-enabled", "holdfast.socket", "holdfast.service"))
		g.Run("install", wire.Dir+"/holdfast-next", checkout+"/bin/holdfast")
		follow(upgrading[0])
		assert.Equal(t, "next", g.Status().Version)
		assertNoneLost(t, load.Stop())
	})
}

var shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// instructions are the commands in a section of the document for operators, by
// block.
func instructions(t *testing.T, title string) []string {
	t.Helper()
	document, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(document), "\n## "+title+"\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	var blocks []string
	for _, block := range shellBlock.FindAllStringSubmatch(section, -1) {
		blocks = append(blocks, block[1])
	}
	return blocks
}
