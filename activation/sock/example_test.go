package sock_test

import (
	"fmt"
	"net/netip"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

func ExampleListen() {
	l, err := sock.Listen(sock.TCP(netip.MustParseAddrPort("[::1]:0")), sock.Options{})
	if err != nil {
		fmt.Println(err, sock.Hint(err))
		return
	}
	defer l.Close()
	fmt.Println(l.Addr().Network, l.Addr().AddrPort.Addr(), l.Info.Listening)
	// Output: tcp ::1 true
}

func ExampleHint() {
	_, err := sock.Listen(sock.Unix("/nonexistent/x.sock"), sock.Options{})
	fmt.Println("error:", err)
	fmt.Println("hint:", sock.Hint(err))
	// Output:
	// error: listen on unix /nonexistent/x.sock: directory /nonexistent: no such file or directory
	// hint: there is no directory /nonexistent; in a unit RuntimeDirectory= makes one
}
