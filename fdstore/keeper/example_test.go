package keeper_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/holdfast-proxy/holdfast/fdstore/keeper"
)

// A program that keeps: `program step …` is how it runs itself to become the command.
func Example() {
	main := func() {
		if len(os.Args) > 1 && os.Args[1] == "step" {
			fmt.Fprintln(os.Stderr, keeper.Exec(os.Args[2:]))
			os.Exit(127)
		}
		code, err := keeper.Run(keeper.Options{
			Command:     os.Args[1:],
			Step:        []string{"step"},
			StoreMax:    4096,
			StopTimeout: 90 * time.Second,
			Log:         slog.Default(),
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}
	_ = main
}

// What a service does that is kept, beside sd_notify(3).
func ExampleClient() {
	client := keeper.ClientFromEnv() // once, early in main; nil without a keeper

	ctx, cancel := context.WithCancel(context.Background())
	go client.Follow(ctx, func() { fmt.Println("another keeper: push everything again") })
	defer cancel()

	// on SIGTERM:
	asking, done := context.WithTimeout(context.Background(), 2*time.Second)
	defer done()
	switch job, err := client.Job(asking); job {
	case keeper.JobStop:
		fmt.Println("a stop: serve who waits, close the sockets")
	case keeper.JobRestart:
		fmt.Println("a restart: leave them to the next process")
	case keeper.JobUnknown:
		fmt.Println("nobody says:", err)
	}
	// Output: nobody says: <nil>
}
