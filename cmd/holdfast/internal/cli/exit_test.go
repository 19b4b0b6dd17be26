package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/pidfd"
	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/daemon"
	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/control"
)

func TestErrorsBecomeExitCodesAndLines(t *testing.T) {
	wrapped := func(err error) error { return fmt.Errorf("control socket /run/x.sock: %w", err) }
	for name, c := range map[string]struct {
		err  error
		code int
		text string
	}{
		"no error": {nil, 0, ""},
		"any other": {
			errors.New("listener web (tcp 127.0.0.1:80): address already in use"), 1,
			"error: listener web (tcp 127.0.0.1:80): address already in use\n",
		},
		"several in one": {
			errors.Join(errors.New("one"), errors.New("two")), 1,
			"error: one\nerror: two\n",
		},
		"wrong usage": {
			usage(newRoot(), errors.New("no command")), 2,
			"error: no command\nhint: holdfast --help says how\n",
		},
		"no permission for a file": {
			wrapped(fs.ErrPermission), 4,
			"error: control socket /run/x.sock: permission denied\nhint: run it as root or as the user of the instance, or name another control socket with --control-socket\n",
		},
		"no permission for a port": {
			fmt.Errorf("listener web (tcp 127.0.0.1:80): %w", unix.EACCES), 4,
			"error: listener web (tcp 127.0.0.1:80): permission denied\nhint: run it as root or as the user of the instance, or name another control socket with --control-socket\n",
		},
		"not permitted": {unix.EPERM, 4, "error: operation not permitted\nhint: run it as root or as the user of the instance, or name another control socket with --control-socket\n"},
		"bad config": {
			wrapped(&config.Error{Problems: []config.Problem{
				{File: "a.toml", Line: 3, Column: 1, Key: "listener.web.upstream", Message: "no upstream named \"ap\"", Hint: "did you mean \"app\"?"},
				{Message: "something else"},
			}}), 6,
			"error: a.toml:3:1: listener.web.upstream: no upstream named \"ap\"\nhint: did you mean \"app\"?\nerror: something else\n",
		},
		"terminal codes": {errors.New("answer \x1b[2J"), 1, "error: answer \uFFFD[2J\n"},
		"not running": {
			wrapped(control.ErrNotRunning), 7,
			"error: control socket /run/x.sock: not running\nhint: start it with holdfast serve or systemctl start holdfast, or name its socket with --control-socket\n",
		},
		"not running, for status": {
			statusError(wrapped(control.ErrNotRunning)), 3,
			"error: control socket /run/x.sock: not running\nhint: start it with holdfast serve or systemctl start holdfast, or name its socket with --control-socket\n",
		},
		"other trouble of status": {
			statusError(wrapped(errors.New("no answer"))), 1,
			"error: control socket /run/x.sock: no answer\n",
		},
		"a socket of the instance itself": {
			errors.Join(&daemon.AskError{Socket: "control socket /run/x.sock", Err: errors.New("in use by process 12 (holdfast)"), Hint: "stop that instance"}), 1,
			"error: control socket /run/x.sock: in use by process 12 (holdfast)\nhint: stop that instance\n",
		},
		"a socket of the instance itself, no permission": {
			&daemon.AskError{Socket: "control socket /run/x.sock", Err: unix.EACCES}, 4,
			"error: control socket /run/x.sock: permission denied\nhint: run it as root or as the user of the instance, or name another control socket with --control-socket\n",
		},
		"another program that cannot be adopted": {
			&daemon.AdoptError{Process: "process 12 (nginx)", Err: errors.New("it has no socket for listener web"), Hint: "it listens on tcp 127.0.0.1:80"}, 1,
			"error: process 12 (nginx): it has no socket for listener web\nhint: it listens on tcp 127.0.0.1:80\n",
		},
		"the rights to take descriptors": {
			fmt.Errorf("step: %w", &pidfd.RightsError{Process: "process 12 (nginx)", Reasons: []pidfd.Reason{pidfd.YamaNever}, Err: unix.EPERM}), 4,
			"error: step: take descriptors of process 12 (nginx): kernel.yama.ptrace_scope=3 lets nobody do so\n" +
				"hint: no process can lower ptrace_scope from 3: set it lower in /etc/sysctl.d and boot again\n",
		},
		"all said already": {&codedError{code: exitConfig}, 6, ""},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.code, exitCode(c.err))
			var text bytes.Buffer
			printError(&text, c.err)
			assert.Equal(t, c.text, text.String())
		})
	}
}

// A file that may not be read is a matter of rights, not of its content.
func TestUnreadableConfigIsNoPermission(t *testing.T) {
	if unix.Geteuid() == 0 {
		t.Skip("root may read every file")
	}
	file := t.TempDir() + "/holdfast.toml"
	require.NoError(t, unix.Mknod(file, unix.S_IFREG, 0))
	_, err := config.Load(config.Source{File: file})
	assert.Equal(t, exitPermission, exitCode(err))
}
