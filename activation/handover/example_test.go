package handover_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-proxy/holdfast/activation/handover"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// service is a running instance with one listening socket.
type service struct {
	listener *sock.Listener
}

func (s *service) Sockets() ([]handover.Socket, error) {
	label := handover.Label{Origin: "bind", StoreName: s.listener.StoreName()}
	return []handover.Socket{{Label: label, FD: s.listener.FD.Raw()}}, nil
}

func (s *service) BeginDraining(context.Context, time.Duration) error {
	fmt.Println("original: accepts no more")
	return nil
}

func (s *service) Connections() ([]handover.Socket, error) { return nil, nil } // they stay here

func (s *service) LetGo(sock.Peer) error { return nil }

func (s *service) Shutdown(sock.Peer) {
	fmt.Println("original: ends its connections")
	_ = s.listener.FD.Close() // not Close: the replacement goes on with the file of a Unix socket
}

func (s *service) Abandoned() {} // accepts again

// Both sides of a handover; they are two processes in earnest.
// After the answer to ShutdownOriginalNode both go their ways at once.
func Example() {
	dir, err := os.MkdirTemp("", "handover")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "run", "handover.sock")

	original := make(chan error, 1)
	if err := startOriginal(path, original); err != nil {
		fmt.Println(err)
		return
	}
	if err := takeOver(path); err != nil {
		fmt.Println(err)
	}
	fmt.Println("original: exits,", <-original)
	// Unordered output:
	// replacement: got tcp 127.0.0.1
	// original: accepts no more
	// original: ends its connections
	// replacement: the next one finds it at handover.sock
	// original: exits, <nil>
}

func startOriginal(path string, ended chan<- error) error {
	listener, err := sock.Listen(sock.TCP(netip.MustParseAddrPort("127.0.0.1:0")), sock.Options{})
	if err != nil {
		return err
	}
	l, err := handover.Listen(path)
	if err != nil {
		return err
	}
	go func() {
		ended <- handover.Serve(context.Background(), l, &service{listener}, handover.Options{Version: "1.0"}, slog.New(slog.DiscardHandler))
	}()
	return nil
}

func takeOver(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s, err := handover.Dial(path) // ErrNobody: start as usual
	if err != nil {
		return err
	}
	defer s.Close() // before ShutdownOriginalNode: the original goes on
	if _, err := s.Hello(ctx, "1.1"); err != nil {
		return err
	}
	got, err := s.SendListeningSockets(ctx)
	if err != nil {
		return err
	}
	for _, r := range got {
		l, err := sock.AdoptStored(r.FD, r.StoreName)
		if err != nil {
			return err
		}
		defer l.Close()
		fmt.Println("replacement: got", l.Addr().Network, l.Addr().AddrPort.Addr()) // and accepts on it
	}
	if err := s.BeginDrainingConnections(ctx, 30*time.Second); err != nil {
		return err
	}
	next, err := s.ShutdownOriginalNode(ctx) // after a moment in which all was well
	if err != nil {
		return err
	}
	defer next.Close() // handover.Serve, in earnest
	fmt.Println("replacement: the next one finds it at", filepath.Base(next.Addr().Path))
	return nil
}
