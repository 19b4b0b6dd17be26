package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// roleVariable makes the test binary be one of the roles.
const roleVariable = "BENCH_ROLE"

const (
	serverRole = "server" // reads an address and serves there
	loadRole   = "load"   // reads jobs and works on each; what it holds stays open until it ends
)

// actor is a process that plays a role. It gets lines of JSON and answers each
// with a line: "ok", or what went wrong.
type actor struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Reader
}

func startActor(b *testing.B, role string) *actor {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	a := &actor{cmd: cmd, in: in, answers: bufio.NewReader(out)}
	b.Cleanup(a.stop)
	return a
}

// tell gives the actor something to do and waits until it is done.
func (a *actor) tell(b *testing.B, what any) {
	b.Helper()
	if err := json.NewEncoder(a.in).Encode(what); err != nil {
		b.Fatal(err)
	}
	answer, err := a.answers.ReadString('\n')
	if err != nil || strings.TrimSpace(answer) != "ok" {
		b.Fatalf("%+v: %s (%v)", what, answer, err)
	}
}

func (a *actor) stop() {
	_ = a.cmd.Process.Kill()
	_ = a.cmd.Wait()
}

// play is the main function of an actor.
func play(role string) error {
	lines := json.NewDecoder(os.Stdin)
	switch role {
	case serverRole:
		var address string
		if err := lines.Decode(&address); err != nil {
			return err
		}
		s, err := listenAt(address)
		if err != nil {
			return err
		}
		fmt.Println("ok")
		return s.run()
	case loadRole:
		for {
			var j job
			if err := lines.Decode(&j); err != nil {
				return err
			}
			if err := perform(j); err != nil {
				return err
			}
			fmt.Println("ok")
		}
	}
	return fmt.Errorf("no such role: %q", role)
}
