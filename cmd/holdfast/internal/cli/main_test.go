package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/control"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// Programs of the stories, each run as a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"holdfast": func() { os.Exit(Main()) },
		"instance": func() { exitOn(instance(os.Args[1], os.Args[2])) },
		"foreign":  func() { exitOn(foreign(os.Args[1])) },
		"fetch":    func() { exitOn(fetch(os.Args[1])) },
	})
}

func exitOn(err error) {
	if err != nil {
		_, _ = io.WriteString(os.Stderr, err.Error()+"\n")
		os.Exit(1)
	}
}

// canned is an instance whose status never changes.
type canned status.Status

func (c canned) Status() status.Status { return status.Status(c) }

func (c canned) Reload(context.Context) (status.Reload, error) {
	return status.Reload{}, errors.New("it never changes")
}

func (c canned) Upgrade(context.Context) (status.Upgrade, error) {
	return status.Upgrade{}, errors.New("it never changes")
}

// instance answers on a control socket with the status in a file, until it is
// told to stop.
func instance(socket, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var s status.Status
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	return control.Serve(ctx, l, canned(s), slog.New(slog.DiscardHandler))
}

// foreign is another program on the socket, which greets like an SSH server.
func foreign(socket string) error {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		_, _ = io.WriteString(conn, "SSH-2.0-OpenSSH_9.6\r\n")
		_ = conn.Close()
	}
}

// fetch prints what is at a URL.
func fetch(url string) error {
	response, err := http.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(os.Stdout, response.Body)
	return err
}

func (c canned) Drain(context.Context) (status.Drain, error) {
	return status.Drain{Connections: 3}, nil
}
