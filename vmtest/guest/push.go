package main

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// runPush puts descriptors into the store of the unit that it runs in, each under a
// name: an empty file, or with "NAME=ADDRESS" a listening socket. An empty name is
// none. It ends when systemd has dealt with them.
func runPush(args []string) error {
	manager, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(manager)
	for _, arg := range args {
		name, at, isSocket := strings.Cut(arg, "=")
		message := "FDSTORE=1\nFDPOLL=0"
		if name != "" {
			message += "\nFDNAME=" + name
		}
		file, err := emptyFile()
		if isSocket {
			file, err = listeningSocket(at)
		}
		if err != nil {
			return err
		}
		if err := notifyWith(manager, message, file); err != nil {
			return err
		}
	}
	return barrier(manager)
}

func emptyFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("pushed", unix.MFD_CLOEXEC)
	return os.NewFile(uintptr(fd), "pushed"), err
}

func listeningSocket(at string) (*os.File, error) {
	a, err := parseAddress(at)
	if err != nil {
		return nil, err
	}
	l, err := a.listen()
	if err != nil {
		return nil, err
	}
	defer l.Close()
	lender, ok := l.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, errors.New("a listener without a file")
	}
	return lender.File()
}

// notifyWith sends a message of sd_notify(3) with a copy of file, which it closes.
func notifyWith(manager int, message string, file *os.File) error {
	defer file.Close()
	to := &unix.SockaddrUnix{Name: os.Getenv("NOTIFY_SOCKET")}
	return unix.Sendmsg(manager, []byte(message), unix.UnixRights(int(file.Fd())), to, 0)
}

// barrier returns when systemd has dealt with what was sent before. It closes the
// only other end of a pipe then, see sd_notify_barrier(3).
func barrier(manager int) error {
	closed, sent, err := os.Pipe()
	if err != nil {
		return err
	}
	defer closed.Close()
	if err := notifyWith(manager, "BARRIER=1", sent); err != nil {
		return err
	}
	_, _ = closed.Read(make([]byte, 1)) // the end of the file
	return nil
}
