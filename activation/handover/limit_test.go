package handover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func init() {
	children["replacement with few descriptors"] = func() int {
		fmt.Println(takeWithFewDescriptors(os.Args[1]))
		return 0
	}
	children["replacement with none at the end"] = func() int {
		fmt.Println(shutDownWithNoDescriptor(os.Args[1]))
		return 0
	}
}

func limitDescriptors(n uint64) error {
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: 20000})
}

// greet is a session of a child, which ends soon.
func greet(ctx context.Context, path string) (*Session, error) {
	s, err := Dial(path)
	if err != nil {
		return nil, err
	}
	_, err = s.Hello(ctx, "")
	return s, err
}

func takeWithFewDescriptors(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := greet(ctx, path)
	if err != nil {
		return err
	}
	open := openDescriptors()
	if err := limitDescriptors(100); err != nil {
		return err
	}
	got, err := s.SendListeningSockets(ctx)
	if err == nil || len(got) > 0 {
		return fmt.Errorf("%d sockets came", len(got))
	}
	if now := openDescriptors(); now != open {
		return fmt.Errorf("%d descriptors are left open", now-open)
	}
	return err
}

func TestAReplacementWithoutRoomForTheDescriptorsSaysWhichLimit(t *testing.T) {
	for _, n := range []int{150, 300} {
		path := socketPath(t)
		old := newInstance("original", manySockets(t, n)...)
		startInstance(t, path, old, Options{}, quiet())
		child := startProcess(t, "replacement with few descriptors", os.Geteuid(), path)
		assert.Regexp(t, `SendListeningSockets: [0-9]+ of [0-9]+ descriptors arrived: this process may have 100 open \(RLIMIT_NOFILE\)`, child.says(t))
		old.awaitAbandoned(t)
		next, _ := takeOver(t, path, "third")
		assert.Len(t, next.sockets, n)
	}
}

// The original has stopped by then, so that is no error.
func shutDownWithNoDescriptor(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := greet(ctx, path)
	if err != nil {
		return err
	}
	if _, err := s.SendListeningSockets(ctx); err != nil {
		return err
	}
	if err := s.BeginDrainingConnections(ctx, 0); err != nil {
		return err
	}
	if err := limitDescriptors(3); err != nil {
		return err
	}
	next, err := s.ShutdownOriginalNode(ctx)
	if err := errors.Join(err, limitDescriptors(1000)); err != nil {
		return err
	}
	if next != nil {
		return errors.New("the handover socket came")
	}
	_, err = Listen(path)
	return err
}

func TestAHandoverSocketThatDoesNotArriveIsReplaced(t *testing.T) {
	path := socketPath(t)
	_, serving := start(t, path, Options{})
	child := startProcess(t, "replacement with none at the end", os.Geteuid(), path)
	require.Equal(t, "<nil>", child.says(t))
	serving.awaitEnd(t)
}
