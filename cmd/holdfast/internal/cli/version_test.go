package cli

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestVersionSaysWhatIsKnown(t *testing.T) {
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"},
			{Key: "vcs.modified", Value: modified},
		}
	}
	for name, c := range map[string]struct {
		linked string
		info   debug.BuildInfo
		want   build
	}{
		"release":      {"1.2.3", debug.BuildInfo{GoVersion: "go1.26.0", Settings: vcs("false")}, build{"1.2.3", "0123456789ab", "go1.26.0"}},
		"go install":   {"", debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "v1.2.3"}}, build{"v1.2.3", "", "go1.26.0"}},
		"working copy": {"", debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "(devel)"}, Settings: vcs("true")}, build{"devel", "0123456789ab-dirty", "go1.26.0"}},
		"nothing":      {"", debug.BuildInfo{}, build{Version: "devel"}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, describe(c.linked, &c.info))
		})
	}
}
