// Command holdfast is a proxy for TCP and Unix streams that never lets go of a
// connection.
package main

import (
	"os"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/cli"
)

func main() { os.Exit(cli.Main()) }
