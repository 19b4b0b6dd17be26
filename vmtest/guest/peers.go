package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// peersPatience is how long an end may take to see what the other one did.
const peersPatience = 30 * time.Second

// farewells are the ways to end a connection, each by one end with unread data before.
var farewells = []struct {
	name string
	act  func(conn halfCloser) error
	seen sight
}{
	{"half-closes", halfCloser.CloseWrite, allAndEnd},
	{"closes", halfCloser.Close, allAndEnd},
	{"resets", reset, aReset},
}

// sight is what the other end gets to see.
type sight int

const (
	allAndEnd sight = iota // all data, and an end in order
	aReset                 // and perhaps some of the data before
	anEnd                  // of whatever kind
)

// reset ends a connection without a word. A Unix socket can only be closed.
func reset(conn halfCloser) error {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	return conn.Close()
}

// parting is a connection with both of its ends.
type parting struct {
	what       string
	goes, sees halfCloser
	act        func(conn halfCloser) error
	seen       sight
}

const lastWords = "last words"

// runPeers makes connections through proxies to a server of its own. On USR1 one end of
// each ends it, and STATUS= says so. On TERM it fails if the other ends have seen anything
// else than that.
func runPeers(args []string) error {
	addresses, err := parseAddresses(args)
	if err != nil || len(addresses) < 2 {
		return errors.Join(errors.New("an address for the server and those of proxies"), err)
	}
	act, over := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(act, syscall.SIGUSR1)
	signal.Notify(over, syscall.SIGTERM)
	all, err := openPartings(addresses[0], addresses[1:])
	if err != nil {
		return err
	}
	if err := notifyReady(); err != nil {
		return err
	}
	<-act
	for _, p := range all {
		_, err := io.WriteString(p.goes, lastWords)
		if err := errors.Join(err, p.act(p.goes)); err != nil {
			return fmt.Errorf("%s: %w", p.what, err)
		}
	}
	if err := notify("STATUS=ended"); err != nil {
		return err
	}
	<-over
	var wrong []error
	for _, p := range all {
		if err := p.verify(); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", p.what, err))
		}
	}
	return errors.Join(wrong...)
}

func openPartings(server address, through []address) ([]*parting, error) {
	l, err := server.listen()
	if err != nil {
		return nil, err
	}
	defer l.Close()
	var all []*parting
	for _, a := range through {
		for _, f := range farewells {
			for _, end := range []string{"client", "server"} {
				client, err := dial(a, peersPatience)
				if err != nil {
					return nil, err
				}
				accepted, err := l.Accept()
				if err != nil {
					return nil, err
				}
				p := &parting{what: fmt.Sprintf("%v: the %s %s", a, end, f.name), goes: client, sees: accepted.(halfCloser), act: f.act, seen: f.seen}
				if end == "server" {
					p.goes, p.sees = p.sees, p.goes
				}
				if a.network == "unix" && f.seen == aReset {
					p.seen = anEnd // a Unix socket knows no reset
				}
				all = append(all, p)
			}
		}
	}
	return all, nil
}

// verify looks at what the other end gets.
func (p *parting) verify() error {
	_ = p.sees.SetDeadline(time.Now().Add(peersPatience)) // fails on closed connections only
	got, err := io.ReadAll(p.sees)
	switch {
	case p.seen == allAndEnd && (err != nil || string(got) != lastWords):
		return errors.Join(fmt.Errorf("the other end has got %q", got), err)
	case p.seen == aReset && !errors.Is(err, syscall.ECONNRESET):
		return errors.Join(errors.New("the other end has seen no reset"), err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return err
	}
	return nil
}
