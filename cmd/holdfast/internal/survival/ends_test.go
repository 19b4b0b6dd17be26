package survival

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/proxyproto"
)

// idSize is what a client sends first, so that its server knows the plan.
const idSize = 8

// runClient connects by the plan's route and plays its part.
func (h *house) runClient(p *plan) {
	d := net.Dialer{Timeout: patience, Control: func(_, _ string, raw syscall.RawConn) error {
		if p.ends[client].window == 0 {
			return nil
		}
		return raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, p.ends[client].window)
		})
	}}
	d.SetMultipathTCP(p.mptcp)
	c, err := d.DialContext(context.Background(), p.route.network, p.route.address)
	switch {
	case isReset(err) && (p.mptcp || h.tolerates != nil): // accepted, not kept, and killed before connect has returned
		h.over(p, client, outcome{end: err, refusal: err})
		return
	case err != nil:
		h.failed(p, fmt.Errorf("connect: %w", err))
		return
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	if own, ok := c.LocalAddr().(*net.TCPAddr); ok {
		h.mu.Lock()
		p.address = own.AddrPort()
		h.mu.Unlock()
	}
	if tcp, ok := c.(*net.TCPConn); ok && p.mptcp {
		if p.mptcp, _ = tcp.MultipathTCP(); p.mptcp {
			p.ends[client].urgent = 0                          // there is none
			_ = c.SetDeadline(time.Now().Add(5 * time.Second)) // it hears of no end when the child was killed
		}
	}
	if err := p.introduce(c); err != nil {
		_ = c.Close()
		h.over(p, client, outcome{end: err, refusal: err})
		return
	}
	h.over(p, client, p.play(client, c))
}

// introduce sends the PROXY header, where there is to be one, in pieces, and the ID.
func (p *plan) introduce(c net.Conn) error {
	var text []byte
	r := rand.New(rand.NewPCG(p.ends[client].seed, 4))
	if p.route.acceptProxy {
		text = proxyproto.Append(nil, 1+r.IntN(2), p.source(netip.AddrPort{}), netip.MustParseAddrPort("192.0.2.1:80"))
	}
	header := len(text)
	text = binary.BigEndian.AppendUint64(text, p.id)
	for len(text) > 0 {
		n := len(text)
		if header > 0 && r.IntN(3) > 0 {
			n = 1 + r.IntN(len(text))
		}
		if _, err := c.Write(text[:n]); err != nil {
			return err
		}
		text = text[n:]
		if len(text) > 0 {
			pause(r, 20*time.Millisecond)
		}
	}
	return nil
}

// source is the client's address as its server is to see it.
func (p *plan) source(own netip.AddrPort) netip.AddrPort {
	if !p.route.acceptProxy {
		return own
	}
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], uint32(p.id))
	ip[0] = 10
	return netip.AddrPortFrom(netip.AddrFrom4(ip), 1+uint16(p.id%60000))
}

// runServer plays the part of whoever has connected. Who says nothing was dialled by a
// child that was killed before it had connected.
func (h *house) runServer(by *route, c net.Conn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	id, source, err := readIntroduction(c, by.sendProxy != 0)
	if err != nil {
		h.counts.aborted.Add(1)
		whole := errors.Is(err, errSilent) || isReset(err) || by.to == "unix" && (isEnd(err) || errors.Is(err, io.ErrUnexpectedEOF))
		if !whole && h.tolerates == nil {
			h.t.Errorf("a server of %s was given something else: %v", by.name, err)
		}
		return
	}
	p := h.planOf(id)
	if p == nil {
		h.t.Errorf("a server of %s was given connection %d, which was over", by.name, id)
		return
	}
	if by.sendProxy != 0 && by.acceptProxy && source != p.source(source) {
		h.failed(p, fmt.Errorf("its server was told that it comes from %s, and not %s", source, p.source(source)))
	}
	p.mu.Lock()
	p.seen++
	p.mu.Unlock()
	if tcp, ok := c.(*net.TCPConn); ok && p.ends[server].window > 0 {
		_ = tcp.SetReadBuffer(p.ends[server].window)
	}
	h.over(p, server, p.play(server, c))
}

// errSilent is a connection that ended without a byte.
var errSilent = errors.New("it said nothing")

// readIntroduction reads what comes before the stream.
func readIntroduction(c net.Conn, header bool) (id uint64, source netip.AddrPort, err error) {
	var text []byte
	for want := 1; header; {
		more := make([]byte, want-len(text))
		n, err := io.ReadFull(c, more)
		text = append(text, more[:n]...)
		if err != nil {
			return 0, source, silence(text, err)
		}
		h, size, err := proxyproto.Parse(text)
		header = err != nil
		source, want = h.Source, size
		if header && !errors.Is(err, proxyproto.ErrMore) {
			return 0, source, fmt.Errorf("%w: %q", err, text)
		}
	}
	var b [idSize]byte
	n, err := io.ReadFull(c, b[:])
	if err != nil {
		return 0, source, silence(append(text, b[:n]...), err)
	}
	return binary.BigEndian.Uint64(b[:]), source, nil
}

// silence is errSilent where nothing came before an end.
func silence(came []byte, err error) error {
	if len(came) == 0 && (isEnd(err) || isReset(err)) {
		return errSilent
	}
	return err
}
