package main

import (
	"net"
	"os"
)

// notifyReady tells systemd that a unit of Type=notify has started.
func notifyReady() error { return notify("READY=1") }

// notify sends what sd_notify(3) describes.
func notify(state string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	conn, err := net.Dial("unixgram", path)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte(state))
	return err
}
