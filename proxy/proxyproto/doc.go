// Package proxyproto reads and writes the header with which one proxy tells the
// next whom it speaks for: the PROXY protocol, versions 1 and 2, as specified in
// https://www.haproxy.org/download/3.4/doc/proxy-protocol.txt.
//
// It is pure: bytes in, addresses out. Reading from the connection, the time
// limit and the decision whom to believe ([Trusted]) are the caller's.
// The grammar of a complete header is that of github.com/pires/go-proxyproto;
// this package adds what an event loop needs: an answer for every prefix.
package proxyproto
