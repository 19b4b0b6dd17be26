package pidfd_test

import (
	"errors"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/pidfd"
)

const yamaFile = "/proc/sys/kernel/yama/ptrace_scope"

// yamaScope is kernel.yama.ptrace_scope, or -1 without Yama.
func yamaScope(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(yamaFile)
	if errors.Is(err, os.ErrNotExist) {
		return -1
	}
	require.NoError(t, err)
	scope, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	return scope
}

// needsYama is for tests that set its scope.
func needsYama(t *testing.T) {
	t.Helper()
	needsRoot(t, "set Yama's scope")
	switch yamaScope(t) {
	case -1:
		t.Skip("NOT TESTED HERE: this kernel has no Yama. What it would say is tested with made-up facts only")
	case 3:
		t.Skip("NOT TESTED HERE: kernel.yama.ptrace_scope is 3 until the next boot")
	}
}

// setYama sets the scope for the rest of a test.
func setYama(t *testing.T, scope int) {
	t.Helper()
	before := yamaScope(t)
	require.NoError(t, os.WriteFile(yamaFile, strconv.AppendInt(nil, int64(scope), 10), 0))
	t.Cleanup(func() {
		require.NoError(t, os.WriteFile(yamaFile, strconv.AppendInt(nil, int64(before), 10), 0))
	})
}

// allow does in a child what it is told, and gives what it says about it.
func allow(whom string) string {
	err := pidfd.AllowNobody()
	if pid, convErr := strconv.Atoi(whom); convErr == nil {
		err = pidfd.Allow(pid)
	}
	if err != nil {
		return err.Error()
	}
	return "ok"
}

func (c *child) allows(t *testing.T, whom string) {
	t.Helper()
	var said string
	c.tells(t, whom)
	c.hears(t, &said)
	require.Equal(t, "ok", said)
}

func TestYamaDecides(t *testing.T) {
	needsYama(t)
	self := strconv.Itoa(os.Getpid()) // the parent of who asks
	relation, capability := []pidfd.Reason{pidfd.YamaRelation}, []pidfd.Reason{pidfd.YamaCapability}
	for _, tt := range []struct {
		name   string
		scope  int
		allows string // whom the target allows; "asker" is who asks
		caps   []uintptr
		want   []pidfd.Reason
	}{
		{"scope 0", 0, "nobody", nil, nil},
		{"scope 1", 1, "nobody", nil, relation},
		{"scope 1, allowed", 1, "asker", nil, nil},
		{"scope 1, the parent is allowed", 1, self, nil, nil},
		{"scope 1, another one is allowed", 1, "1", nil, nil}, // the parent of all
		{"scope 1, with the capability", 1, "nobody", []uintptr{unix.CAP_SYS_PTRACE}, nil},
		{"scope 2", 2, "nobody", nil, capability},
		{"scope 2, allowed", 2, "asker", nil, capability},
		{"scope 2, with the capability", 2, "nobody", []uintptr{unix.CAP_SYS_PTRACE}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			setYama(t, tt.scope)
			target := start(t, as(command("listens"), user(me, me)))
			var at netip.AddrPort
			target.hears(t, &at)
			asker := start(t, as(command("asks", strconv.Itoa(target.Process.Pid)), user(me, me, tt.caps...)))

			target.allows(t, strings.Replace(tt.allows, "asker", strconv.Itoa(asker.Process.Pid), 1))
			got := asker.asks(t)
			assert.Equal(t, tt.want, got.Reasons, "%s", got.Error)
			if tt.want == nil {
				assert.Equal(t, 1, got.Sockets, "%s", got.Error)
			} else {
				assert.Contains(t, got.Hint, "; or else sysctl kernel.yama.ptrace_scope=0")
			}

			target.allows(t, "nobody")
			if tt.scope == 1 && tt.caps == nil {
				assert.Equal(t, relation, asker.asks(t).Reasons, "it was taken back")
			}
		})
	}
}

func TestAllowIsForAProcess(t *testing.T) {
	for _, pid := range []int{0, -1} {
		assert.ErrorIs(t, pidfd.Allow(pid), unix.ESRCH, "that would be everybody, or nobody")
	}
	gone := sleeper(t)
	gone.kill()
	err := pidfd.Allow(gone.Process.Pid)
	if yamaScope(t) < 0 {
		assert.NoError(t, err, "without Yama there is nothing to allow")
	} else {
		assert.ErrorIs(t, err, unix.ESRCH)
	}
	require.NoError(t, pidfd.Allow(os.Getpid()))
	require.NoError(t, pidfd.AllowNobody())
}
