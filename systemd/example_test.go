package systemd_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/holdfast-proxy/holdfast/systemd"
)

// The test stands for the service manager and reads what it is told.
func Example() {
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: "@holdfast-example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer manager.Close()
	_ = os.Setenv("NOTIFY_SOCKET", "@holdfast-example")
	read := func() string {
		message := make([]byte, 100)
		n, _ := manager.Read(message)
		return string(message[:n])
	}

	notify, err := systemd.NotifierFromEnv()
	if err != nil {
		fmt.Println(err)
		return
	}
	// One message, so that nobody sees the one without the other.
	if err := notify.Send("READY=1", "STATUS=2 listeners"); err != nil {
		fmt.Println(err)
	}
	fmt.Println(read())

	if err := notify.Reloading(); err != nil {
		fmt.Println(err)
	}
	// A reload that is refused ends in the same way as any other.
	if err := notify.Send("READY=1", "STATUS=2 listeners, the last reload was refused"); err != nil {
		fmt.Println(err)
	}
	reloading, _, _ := strings.Cut(read(), "\n") // the rest is the time
	fmt.Println(reloading)
	fmt.Println(read())
	// Output:
	// READY=1
	// STATUS=2 listeners
	// RELOADING=1
	// READY=1
	// STATUS=2 listeners, the last reload was refused
}

// Descriptors that outlive this process: they come back to the next one.
func ExampleNotifier_SendFDs() {
	notify, err := systemd.NotifierFromEnv()
	if err != nil {
		fmt.Println(err)
		return
	}
	err = notify.SendFDs([]int{0}, "FDSTORE=1", "FDNAME=input", "FDPOLL=0")
	if errors.Is(err, systemd.ErrNoManager) {
		fmt.Println("no store: the descriptor ends with this process")
		return
	}
	// A full store takes nothing and does not say so.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := notify.Barrier(ctx); err != nil {
		fmt.Println(err)
		return
	}
	unit, err := systemd.AskUnit(ctx)
	fmt.Println(unit.Stored, "of", unit.StoreMax, "in the store", err)
	// Output: no store: the descriptor ends with this process
}

// At SIGTERM a restart keeps what a stop ends.
func ExampleAskUnit() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	unit, err := systemd.AskUnit(ctx)
	switch {
	case err != nil:
		fmt.Println("not known, so it is a stop:", err)
	case unit.Job == "restart":
		fmt.Println(unit.Name, "is restarted")
	default:
		fmt.Println(unit.Name, "is stopped")
	}
}

func ExampleNewLogHandler() {
	var level slog.LevelVar // info; may be changed at any time
	log := slog.New(systemd.NewLogHandler(systemd.LogOptions{Identifier: "holdfast", Level: &level}))
	log.Info("listening", "listener", "web", "socket", "tcp 127.0.0.1:8080")
	level.Set(slog.LevelDebug)
	// Under a unit, `journalctl -u holdfast LISTENER=web` finds that line.
}
