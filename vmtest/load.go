package vmtest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/vmtest/wire"
)

// StartEcho starts a server that sends back what it gets, on each address, as
// the unit vmtest-echo.
func (g *Guest) StartEcho(addresses ...string) {
	g.t.Helper()
	g.startUnit("vmtest-echo", patience, nil, append([]string{"echo"}, addresses...)...)
}

// Load is a set of clients. The zero value is a small one.
type Load struct {
	Streams  int           // connections that are kept open, per address; 0 = 4, -1 = none
	Beat     time.Duration // of a stream between two pieces of data, on average; 0 = 50 ms
	Idle     int           // connections, per address, on which nothing moves between the first exchange and the last
	Callers  int           // clients that connect again and again, per address; 0 = 2, -1 = none
	Pause    time.Duration // of a caller between two connections, on average; 0 = 25 ms
	Hold     time.Duration // of a caller's connection, at most: each lasts a random time; 0 = one exchange
	Patience time.Duration // without an answer, after which a client gives up, and of a start and a stop, which have a minute at least; 0 = 20 s
}

// Running is a load that goes on until it is stopped.
type Running struct {
	g    *Guest
	unit string
	most time.Duration // that its clients take to be served once, or to end
}

// report is the file that the load's unit writes.
func (r *Running) report() string { return wire.Dir + "/" + r.unit + ".json" }

// StartLoad puts addresses, behind which an echo server must be, under load. It
// returns when each client was served once.
func (g *Guest) StartLoad(l Load, addresses ...string) *Running {
	g.t.Helper()
	g.loads++
	r := &Running{g, fmt.Sprintf("vmtest-load-%d", g.loads), max(patience, l.Patience)}
	args := []string{"load", "--streams=" + count(l.Streams, 4), "--callers=" + count(l.Callers, 2)}
	if l.Beat > 0 {
		args = append(args, "--beat="+l.Beat.String())
	}
	if l.Idle > 0 {
		args = append(args, "--idle="+strconv.Itoa(l.Idle))
	}
	if l.Pause > 0 {
		args = append(args, "--pause="+l.Pause.String())
	}
	if l.Hold > 0 {
		args = append(args, "--hold="+l.Hold.String())
	}
	if l.Patience > 0 {
		args = append(args, "--patience="+l.Patience.String())
	}
	output := []string{"--property=StandardOutput=truncate:" + r.report(), "--property=StandardError=journal"}
	g.startUnit(r.unit, r.most, output, append(args, addresses...)...)
	return r
}

func count(n, zero int) string {
	if n == 0 {
		n = zero
	}
	return strconv.Itoa(max(n, 0))
}

// Stop lets each client end what it has begun, and says how it went.
func (r *Running) Stop() wire.LoadReport {
	r.g.t.Helper()
	r.g.runWithin(r.most+2*overhead, "systemctl", "stop", r.unit)
	var report wire.LoadReport
	require.NoError(r.g.t, json.Unmarshal(r.g.Read(r.report()), &report))
	r.g.t.Logf("load: %+v", report)
	return report
}

// overhead is for what is around the patience of a unit's clients, and then around the
// limits of the unit: who loses patience is in the report.
const overhead = 10 * time.Second

// startUnit runs the guest program as a service and waits until it is ready. It has that
// much time for it, and to stop.
func (g *Guest) startUnit(unit string, most time.Duration, options []string, args ...string) {
	g.t.Helper()
	limit := fmt.Sprintf("%.0f", (most + overhead).Seconds())
	run := []string{
		"systemd-run", "--quiet", "--unit=" + unit, "--service-type=notify", "--property=LimitNOFILE=100000",
		"--property=TimeoutStartSec=" + limit, "--property=TimeoutStopSec=" + limit,
	}
	run = append(append(run, options...), wire.Program)
	g.runWithin(most+2*overhead, append(run, args...)...)
}
