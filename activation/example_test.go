package activation_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// A service with one listener: it runs under a socket unit with
// FileDescriptorName=web as well as alone.
func Example() {
	source := activation.FromSystemd(slog.Default())
	defer source.Close() // what a failed Acquire leaves

	got, err := activation.Acquire([]activation.Want{
		{Name: "web", Addrs: []sock.Addr{sock.TCP(netip.MustParseAddrPort("127.0.0.1:0"))}},
	}, nil, []*activation.Source{source})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer got.Close()

	for _, u := range got.Unwanted {
		slog.Warn("descriptor not used", "name", u.Name, "socket", u.Info, "reason", u.Reason)
	}
	for _, s := range got.Listeners[0].Sockets {
		fmt.Println("web:", s.Addr().Network, "from", s.Origin)
	}
	// Output: web: tcp from bind
}

// A reload: the listener gets a second address. The first one goes on with the
// socket that it has, whatever queue it has.
func Example_reload() {
	first, second := sock.Unix("@holdfast-example-1"), sock.Unix("@holdfast-example-2")
	before, err := activation.Acquire([]activation.Want{{Name: "web", Addrs: []sock.Addr{first}}}, nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	held := before.Listeners[0].Sockets

	after, err := activation.Acquire([]activation.Want{{Name: "web", Addrs: []sock.Addr{first, second}}}, held, nil)
	if err != nil {
		fmt.Println("goes on as before:", err) // nothing held was touched
		return
	}
	for _, s := range after.Listeners[0].Sockets {
		fmt.Println(s.Addr(), "is new:", s.Listener != held[0].Listener)
	}
	for _, s := range after.Idle {
		_ = s.Retire() // then serve its queue, and close it
	}

	for _, s := range after.Listeners[0].Sockets {
		_ = s.Close() // this process ends
	}
	// Output:
	// unix @holdfast-example-1 is new: false
	// unix @holdfast-example-2 is new: true
}

// What went wrong, and what can be done about it.
func ExampleAcquireError() {
	_, err := activation.Acquire([]activation.Want{
		{Name: "redis", Addrs: []sock.Addr{sock.Unix("/nonexistent/redis.sock")}},
		{Name: "web"},
	}, nil, nil)
	var problems activation.AcquireError
	if errors.As(err, &problems) {
		for _, p := range problems {
			fmt.Println("error:", p)
			fmt.Println("hint:", p.Hint())
		}
	}
	// Output:
	// error: listener redis (unix /nonexistent/redis.sock): directory /nonexistent: no such file or directory
	// hint: there is no directory /nonexistent; in a unit RuntimeDirectory= makes one
	// error: listener web: no address in the config and no socket unit passes a descriptor named web
	// hint: no descriptor arrived: start the socket unit, or give the listener an address
}
