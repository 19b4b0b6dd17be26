package daemon

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheControlGroupOfAService(t *testing.T) {
	for text, want := range map[string]string{
		"0::/system.slice/holdfast.service\n":                                 "/system.slice/holdfast.service",
		"4:memory:/a\n1:name=systemd:/system.slice/holdfast.service\n0::/b\n": "/system.slice/holdfast.service",
		"12:pids:/x\n0::/system.slice/a:b.service\n":                          "/system.slice/a:b.service",
		"0::/\n": "/",
		"":       "",
		"x":      "",
	} {
		assert.Equal(t, want, cgroupOf(text), text)
	}
}

func TestWhichProcessesAManagerCanSupervise(t *testing.T) {
	const service = "/system.slice/holdfast.service"
	for path, want := range map[string]bool{
		service:                       true,
		service + "/sub":              true,
		service + "2":                 false,
		"/system.slice":               false,
		"/system.slice/other.service": false,
		"/user.slice/user-0.slice/session-1.scope": false,
	} {
		assert.Equal(t, want, isWithin(path, service), path)
	}
	assert.True(t, isWithin("/", "/"), "in a container")
	assert.True(t, isWithin("/sub", "/"))
	assert.True(t, supervisable(os.Getpid()))
	assert.False(t, supervisable(0), "of another PID name space")
	assert.False(t, supervisable(1<<22+1), "it has ended")
}
