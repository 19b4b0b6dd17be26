package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/control"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// patience is how long a story waits for what is due at once.
const patience = 10 * time.Second

// TestStories runs testdata/script, where each file is the story of one verb.
func TestStories(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Deadline:            time.Now().Add(time.Minute), // for a program that should have refused to run
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Setenv("NO_COLOR", "1")
			env.Setenv("HOLDFAST_GLOBAL_HANDOVER_SOCKET", env.WorkDir+"/handover.sock") // stories are not to take over from each other
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":     exits,
			"listening": listening,
			"running":   running,
			"jsonvar":   jsonvar,
			"signal":    sendSignal,
			"gone":      gone,
			"freeport":  freeport,
			"takeport":  takeport,
		},
	})
}

// exits CODE PROGRAM [ARG]... runs a program that must exit with just that code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG]...")
	}
	code := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// listening SOCKET waits until somebody accepts connections there.
func listening(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: listening SOCKET")
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("unix", ts.MkAbs(args[0]))
		if err == nil {
			ts.Check(conn.Close())
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("nobody listens: %v", err)
		}
	}
}

// running SOCKET [CONNECTIONS] waits until the instance of a control socket says
// that it runs, with so many active connections.
func running(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: running SOCKET [CONNECTIONS]")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client := control.NewClient(ts.MkAbs(args[0]))
	for {
		answer, err := client.Status(ctx)
		if err == nil && answer.State == status.Running &&
			(len(args) == 1 || strconv.FormatInt(answer.Connections.Active, 10) == args[1]) {
			return
		}
		if ctx.Err() != nil {
			ts.Fatalf("%s is not running so: %+v, %v", args[0], answer, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// jsonvar VARIABLE KEY... sets a variable to the value at that path of the JSON
// that the last program printed. Keys of lists are numbers.
func jsonvar(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: jsonvar VARIABLE KEY...")
	}
	var value any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &value))
	for _, key := range args[1:] {
		switch container := value.(type) {
		case map[string]any:
			value = container[key]
		case []any:
			i, err := strconv.Atoi(key)
			ts.Check(err)
			if i >= len(container) {
				ts.Fatalf("no element %d in %v", i, container)
			}
			value = container[i]
		default:
			ts.Fatalf("no %s in %v", key, value)
		}
	}
	ts.Setenv(args[0], fmt.Sprint(value))
}

// signal NAME PID sends any signal; the kill of testscript knows only two.
func sendSignal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: signal NAME PID")
	}
	number := unix.SignalNum("SIG" + strings.TrimPrefix(args[0], "SIG"))
	pid, err := strconv.Atoi(args[1])
	if number == 0 || err != nil || pid <= 1 {
		ts.Fatalf("signal %q to %q: bad name or process", args[0], args[1])
	}
	ts.Check(unix.Kill(pid, number))
}

// gone PID waits for the end of a process that an upgrade has started: it is a child of
// this one.
func gone(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: gone PID")
	}
	pid, err := strconv.Atoi(args[0])
	ts.Check(err)
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		ended, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
		ts.Check(err)
		if ended == pid {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("process %d does not end", pid)
		}
	}
}

// freeport VARIABLE sets a variable to a TCP port of the loopback address that
// nobody listens on.
func freeport(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: freeport VARIABLE")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Check(l.Close())
	ts.Setenv(args[0], strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
}

// takeport VARIABLE sets a variable to a TCP port of the loopback address that
// somebody listens on until the story ends.
func takeport(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: takeport VARIABLE")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv(args[0], strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
}
