package pidfd_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/pidfd"
)

// Another server is replaced by this program, and nobody is refused meanwhile.
func Example() {
	other := exec.Command("sleep", "3600") // a server with nothing to take
	if err := other.Start(); err != nil {
		fmt.Println(err)
		return
	}
	if err := replace(other.Process.Pid); err != nil {
		fmt.Println("error:", err)
		if rights, ok := errors.AsType[*pidfd.RightsError](err); ok {
			fmt.Println("hint:", rights.Hint())
		}
	}
	_ = other.Wait() // a parent's duty
	// Output:
	// sockets taken: 0
	// the other server has ended
}

func replace(pid int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	p, err := pidfd.Open(pid)
	if err != nil {
		return err
	}
	defer p.Close()
	found, err := p.ListeningSockets(ctx)
	if err != nil {
		return err
	}
	fmt.Println("sockets taken:", len(found))
	for _, f := range found {
		if f.Blocking {
			fmt.Println("the other server must not go on with", f.Info)
		}
		defer f.FD.Close() // serve it: activation.Acquire takes it from here
	}

	if err := p.Signal(unix.SIGTERM); err != nil {
		return err
	}
	if err := p.Wait(ctx); err != nil {
		return err
	}
	fmt.Println("the other server has ended")
	return nil
}
