package keeper_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock/socktest"
	"github.com/holdfast-proxy/holdfast/fdstore/keeper"
)

// The test binary is also the keeper, its step, and the service of the tests. They are
// told by the first argument.
var roles = map[string]func(arguments []string) int{
	"keeper": runKeeper,
	"step": func(command []string) int {
		fmt.Fprintln(os.Stderr, keeper.Exec(command))
		return 127
	},
	"agent": runAgent,
}

const (
	optionsVariable = "TEST_OPTIONS"
	pauseVariable   = "TEST_PAUSE" // before a restart
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if role := roles[os.Args[1]]; role != nil {
			os.Exit(role(os.Args[2:]))
		}
	}
	for _, s := range []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT} {
		if signal.Ignored(s) { // by who runs the tests in the background: the service would inherit it
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	code := socktest.Run(m)
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// runKeeper is what main is in a program that keeps.
func runKeeper(command []string) int {
	var o keeper.Options
	if err := json.Unmarshal([]byte(os.Getenv(optionsVariable)), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if pause, err := time.ParseDuration(os.Getenv(pauseVariable)); err == nil {
		keeper.SetPause(pause)
	}
	o.Command, o.Step = command, []string{"step"}
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o.Sockets = heldFromEnv()
	code, err := keeper.Run(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 125
	}
	return code
}
