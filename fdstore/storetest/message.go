package storetest

import (
	"bytes"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// Limits of a message: NOTIFY_BUFFER_MAX in bytes, NOTIFY_FD_MAX.
const (
	maxText = 4096
	maxFDs  = 768
)

// receive deals with one message, if there is one.
func (m *Manager) receive() {
	text := make([]byte, maxText+1)
	rights := make([]byte, unix.CmsgSpace(unix.SizeofUcred)+unix.CmsgSpace(4*maxFDs))
	n, on, flags, _, err := unix.Recvmsg(m.notify.Raw(), text, rights, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return
	}
	fds := received(rights[:on])
	text = bytes.TrimSuffix(text[:n], []byte{0})
	if flags&(unix.MSG_CTRUNC|unix.MSG_TRUNC) != 0 || n > maxText || bytes.IndexByte(text, 0) >= 0 {
		closeAll(fds)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	closeAll(m.act(strings.Split(string(text), "\n"), fds))
}

// act gives back what is to be closed.
func (m *Manager) act(lines []string, fds []*sock.FD) []*sock.FD {
	name, named := fdName(lines)
	switch {
	case slices.Contains(lines, "BARRIER=1"):
		// Answered by closing what came with it. Other lines are not looked at.
	case slices.Contains(lines, "FDSTOREREMOVE=1"):
		if named {
			m.remove(func(s stored) bool { return s.name == name })
		}
	case slices.Contains(lines, "FDSTORE=1"):
		if !named {
			name = "stored"
		}
		m.push(name, fds, !slices.Contains(lines, "FDPOLL=0"))
		return nil
	}
	return fds
}

// fdName is the first FDNAME=, if it is a valid one: fdname_is_valid.
func fdName(lines []string) (name string, valid bool) {
	for _, line := range lines {
		name, ok := strings.CutPrefix(line, "FDNAME=")
		if !ok {
			continue
		}
		bad := func(r rune) bool { return r < ' ' || r >= 127 || r == ':' }
		return name, len(name) <= 255 && !strings.ContainsFunc(name, bad)
	}
	return "", false
}

func received(rights []byte) []*sock.FD {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil
	}
	var fds []*sock.FD
	for _, cm := range messages {
		raws, err := unix.ParseUnixRights(&cm)
		if err != nil { // credentials
			continue
		}
		for _, raw := range raws {
			fds = append(fds, sock.NewFD(raw))
		}
	}
	return fds
}

func closeAll(fds []*sock.FD) {
	for _, fd := range fds {
		if fd != nil {
			_ = fd.Close()
		}
	}
}
