package main

import (
	"io"
	"net"
)

// halfCloser is a TCP or Unix stream.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// runEcho sends back what it gets, on each address, until it is killed.
func runEcho(args []string) error {
	addresses, err := parseAddresses(args)
	if err != nil {
		return err
	}
	failed := make(chan error)
	for _, a := range addresses {
		l, err := a.listen()
		if err != nil {
			return err
		}
		go func() { failed <- echoAll(l) }()
	}
	if err := notifyReady(); err != nil {
		return err
	}
	return <-failed
}

func echoAll(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go echo(conn.(halfCloser))
	}
}

// echo ends when the client has said all. An error ends the connection as a
// reset, so that a client never takes it for the end of the data.
func echo(conn halfCloser) {
	defer conn.Close()
	// Not by splice(2), for which Go keeps a pipe for each connection.
	to, from := struct{ io.Writer }{conn}, struct{ io.Reader }{conn}
	if _, err := io.CopyBuffer(to, from, make([]byte, 8<<10)); err != nil {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		return
	}
	_ = conn.CloseWrite()
}
