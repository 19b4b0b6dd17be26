package vmtest_test

import (
	"maps"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

// settings are those of the service that no other scenario would miss, as systemctl
// show has them.
var settings = map[string]string{
	"StartLimitIntervalUSec":   "0",
	"NotifyAccess":             "all",
	"WatchdogUSec":             "30s",
	"StandardOutput":           "null",
	"StandardError":            "journal",
	"SyslogLevel":              "3",
	"LogRateLimitIntervalUSec": "0",
	"Restart":                  "always",
	"RestartUSec":              "100ms",
	"FileDescriptorStoreMax":   "4096",
	"RuntimeDirectoryPreserve": "restart",
	"TimeoutStopUSec":          "1min 30s",
	"KillMode":                 "mixed",
	"LimitNOFILE":              "1048576",
	"LimitNOFILESoft":          "1048576",
	"OOMScoreAdjust":           "-500",
	"OOMPolicy":                "continue",
	"PrivateIPC":               "yes",
	"SystemCallErrorNumber":    "1", // EPERM
}

// since254 are those of 254.conf.
var since254 = map[string]string{"RestartSteps": "5", "RestartMaxDelayUSec": "1s"}

func TestTheServiceIsAsShippedWhateverTheDefaultsOfTheHost(t *testing.T) {
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Write("/etc/systemd/system.conf.d/scenario.conf", "[Manager]\nDefaultRestartSec=7s\nDefaultTimeoutStopSec=7s\nDefaultOOMPolicy=kill\nDefaultStandardOutput=kmsg\nDefaultStandardError=kmsg\n")
		g.Install(webToApp(web))
		g.Run("systemctl", "start", service)
		want := maps.Clone(settings)
		if g.Systemd >= 254 {
			maps.Copy(want, since254)
		}
		is := map[string]string{}
		for property := range want {
			is[property] = g.Property(service, property)
		}
		assert.Equal(t, want, is)
		after := g.Property(service, "After")
		assert.Contains(t, after, "network.target")
		assert.Contains(t, after, "nss-lookup.target")
	})
}

func TestTheRuntimeDirectoryOutlivesARestartAndNotAStop(t *testing.T) {
	const dir, kept = "/run/holdfast", "/run/holdfast/kept"
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToApp(web))
		g.Run("systemctl", "start", service)
		g.Run("touch", kept)
		restart(g)
		g.Run("test", "-e", kept)
		g.Run("systemctl", "stop", service)
		assert.NotZero(t, g.Try("test", "-e", dir).Code)
	})
}

// Somebody has sent the signal by hand: systemd was not asked for a stop. What is
// connected then is drained.
func TestAProcessThatIsToldToStopIsReplacedAndRefusesNobody(t *testing.T) {
	const times = 5
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToApp(web))
		g.StartEcho(app)
		g.Run("systemctl", "start", service)
		load := g.StartLoad(vmtest.Load{Streams: -1}, web)
		for n := range times {
			g.Run("kill", "-TERM", g.Property(service, "MainPID"))
			g.AwaitUnit(service, "NRestarts", strconv.Itoa(n+1))
			g.AwaitUnit(service, "SubState", "running")
		}
		assertNoneLost(t, load.Stop())
	})
}
