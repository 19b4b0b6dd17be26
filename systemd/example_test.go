package systemd_test

import (
	"fmt"
	"log/slog"
	"net"
	"os"

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

	notify, err := systemd.NotifierFromEnv()
	if err != nil {
		fmt.Println(err)
		return
	}
	// One message, so that nobody sees the one without the other.
	if err := notify.Send("READY=1", "STATUS=2 listeners"); err != nil {
		fmt.Println(err)
	}

	message := make([]byte, 100)
	n, _ := manager.Read(message)
	fmt.Printf("%s\n", message[:n])
	// Output:
	// READY=1
	// STATUS=2 listeners
}

func ExampleNewLogHandler() {
	var level slog.LevelVar // info; may be changed at any time
	log := slog.New(systemd.NewLogHandler(systemd.LogOptions{Identifier: "holdfast", Level: &level}))
	log.Info("listening", "listener", "web", "socket", "tcp 127.0.0.1:8080")
	level.Set(slog.LevelDebug)
	// Under a unit, `journalctl -u holdfast LISTENER=web` finds that line.
}
