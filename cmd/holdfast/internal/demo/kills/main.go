// Kills shows that a connection outlives the process that relays it. It starts a server, a
// client and between them Holdfast under its keeper, kills Holdfast time and again while
// the client downloads, and compares the hashes of what was sent and what has come.
//
//	make demo
//
// Its exit code is 0 only if they match. It takes about 15 s, most of which are the pauses
// of the keeper, which restarts a service that does not live later each time.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	count := flag.Int("kills", 6, "how `many`")
	flag.Parse()
	if err := run(flag.Arg(0), *count); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(binary string, count int) error {
	if binary == "" {
		return fmt.Errorf("which holdfast? usage: kills [-kills N] PATH")
	}
	server, err := startServer()
	if err != nil {
		return err
	}
	proxy, err := startProxy(binary, server.address)
	if err != nil {
		return err
	}
	defer proxy.stop()
	download, err := startDownload(proxy.address)
	if err != nil {
		return err
	}
	fmt.Printf("A download runs through Holdfast, process %d. Its keeper starts it again, a little later each time.\n\n", proxy.pid)
	if err := killAgain(count, proxy, download); err != nil {
		return err
	}
	received, err := download.finish()
	if err != nil {
		return err
	}
	sent := <-server.sent
	fmt.Printf("\n  sent      %s\n  received  %s\n\n", sent, received)
	if sent != received {
		return fmt.Errorf("the hashes differ")
	}
	fmt.Printf("They match: %d kills, one connection, no byte lost.\n", count)
	return nil
}
