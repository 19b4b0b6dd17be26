// Guest is the one program of the harness inside a test machine, with a verb for
// each of its parts:
//
//	agent   runs commands for the tests, and carries files
//	echo    a server that sends back what it gets
//	load    clients that count what a proxy lost
//	call    one connection to each address
//	peers   both ends of connections, which they end on demand
//	push    puts descriptors into the store of its unit
//
// As process 1 it is the init of the initial RAM disk, which mounts the root and
// gives way to systemd.
//
// It is static, and built anew for each run. A machine gets it at boot, so no
// image has to be rebuilt when it changes.
package main

import (
	"fmt"
	"os"
)

func main() {
	if os.Getpid() == 1 {
		giveWay()
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: guest agent | echo ADDRESS… | load [FLAGS] ADDRESS… | call ADDRESS… | peers SERVER ADDRESS… | push NAME…")
	}
	switch verb, args := args[0], args[1:]; verb {
	case "agent":
		return runAgent()
	case "echo":
		return runEcho(args)
	case "load":
		return runLoad(args)
	case "call":
		return runCall(args)
	case "peers":
		return runPeers(args)
	case "push":
		return runPush(args)
	default:
		return fmt.Errorf("no verb %q", verb)
	}
}
