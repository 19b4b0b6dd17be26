package proxyproto

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	pp "github.com/pires/go-proxyproto"
)

const (
	maxV1    = 107 // with CRLF, section 2.1
	prefixV2 = 16  // signature, command, family and length, section 2.2
	bodyV2   = 4096
)

// MaxLen is the most bytes a header may have, so the most that a caller has to
// hold. Version 2 could say up to 64 KiB. The largest thing that is really sent
// is a client certificate of 1 to 2 KiB; go-proxyproto has the same limit.
const MaxLen = prefixV2 + bodyV2

var (
	// ErrMore says that b is the beginning of a header and more bytes are needed.
	ErrMore = errors.New("PROXY header is not complete")
	// ErrInvalid says that b is no PROXY header and will not become one.
	ErrInvalid = errors.New("invalid PROXY header")
)

// Parse looks for a PROXY header at the start of b. There are three results:
//
//   - err is nil: h is the header and n its length. What follows is payload.
//   - err is ErrMore: ask again when b has at least n bytes. n is more than
//     len(b) and at most MaxLen. It never reaches into the payload, so a caller
//     that must not read too much may wait for exactly n bytes each time.
//   - err wraps ErrInvalid: the connection cannot be used. What does not begin
//     like a header is found out at the first wrong byte.
//
// Additional fields (TLV) are checked for their framing and skipped. A datagram
// family is accepted: it tells how the client reached the sender, not how the
// sender reaches us.
func Parse(b []byte) (h Header, n int, err error) {
	switch {
	case begins(b, signatureV1): // first: an empty b may become the shorter header
		return parseV1(b)
	case begins(b, pp.SIGV2):
		return parseV2(b)
	default:
		return Header{}, 0, fmt.Errorf("%w: no signature", ErrInvalid)
	}
}

// signatureV1 includes the space, which cannot be anything else.
var signatureV1 = append(bytes.Clone(pp.SIGV1), ' ')

// begins: b begins with the signature, as far as it goes.
func begins(b, signature []byte) bool {
	n := min(len(b), len(signature))
	return bytes.Equal(b[:n], signature[:n])
}

// parseV1 parses a line that ends in CRLF.
func parseV1(b []byte) (Header, int, error) {
	const shortest = len("PROXY UNKNOWN\r\n")
	line := b[:min(len(b), maxV1)]
	end := bytes.IndexByte(line, '\n') + 1
	switch {
	case end > 0:
		return parseComplete(b[:end])
	case len(line) == maxV1:
		return Header{}, 0, fmt.Errorf("%w: no end of line in %d bytes", ErrInvalid, maxV1)
	default:
		return Header{}, max(len(b)+1, shortest), ErrMore
	}
}

// parseV2 parses a prefix that tells the length of what follows.
func parseV2(b []byte) (Header, int, error) {
	const atCommand, atFamily, atLength = 12, 13, 14
	// Another version may give the rest another meaning, its length too.
	if len(b) > atCommand && pp.ProtocolVersionAndCommand(b[atCommand]).IsUnspec() {
		return Header{}, 0, fmt.Errorf("%w: version and command 0x%02x", ErrInvalid, b[atCommand])
	}
	if len(b) < prefixV2 {
		return Header{}, prefixV2, ErrMore
	}
	body := int(binary.BigEndian.Uint16(b[atLength:]))
	if body > bodyV2 {
		return Header{}, 0, fmt.Errorf("%w: %d bytes long, at most %d", ErrInvalid, prefixV2+body, MaxLen)
	}
	n := prefixV2 + body
	if len(b) < n {
		return Header{}, n, ErrMore
	}
	if pp.AddressFamilyAndProtocol(b[atFamily]) == pp.UNSPEC {
		// The library refuses it with the command PROXY. The specification
		// leaves that to the receiver, and HAProxy, nginx and Envoy take it.
		return Header{Version: 2, Local: true}, n, nil
	}
	return parseComplete(b[:n])
}

// parseComplete parses b, which is one whole header and nothing else.
func parseComplete(b []byte) (Header, int, error) {
	// The library takes a version 1 header only when it is buffered as a whole.
	parsed, err := pp.Read(bufio.NewReaderSize(bytes.NewReader(b), maxV1))
	if err == nil && parsed.Command.IsProxy() {
		_, err = parsed.TLVs()
	}
	if err != nil {
		return Header{}, 0, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	h := Header{Version: int(parsed.Version), Local: true}
	if parsed.Command.IsLocal() {
		return h, len(b), nil
	}
	h.Source, h.Destination = addrPort(parsed.SourceAddr), addrPort(parsed.DestinationAddr)
	h.Local = !h.Source.IsValid()
	return h, len(b), nil
}
