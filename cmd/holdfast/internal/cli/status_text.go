package cli

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// printStatus is status for people: what concerns the whole instance, then its
// sockets, then its servers.
func printStatus(w io.Writer, s status.Status, now time.Time, p palette) error {
	var page bytes.Buffer
	printInstance(&page, s, now, p)
	printSockets(&page, s.Listeners.Sockets, p)
	printServers(&page, s.Upstreams, p)
	for line := range strings.Lines(page.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// keptLine tells which connections outlive this process, and which have outlived
// another.
func keptLine(c status.Connections) string {
	line := fmt.Sprintf("%d", c.Kept)
	if c.Unkept > 0 {
		line += fmt.Sprintf(", %d not", c.Unkept)
	}
	if c.Lost > 0 {
		line += fmt.Sprintf(", %d lost", c.Lost)
	}
	if c.RestorePause > 0 {
		line += fmt.Sprintf(", restored in %.0f ms", math.Ceil(c.RestorePause))
	}
	return line
}

func printInstance(w io.Writer, s status.Status, now time.Time, p palette) {
	t := newTable(w)
	defer t.flush()
	t.row("holdfast", fmt.Sprintf("%s, %s, pid %d", printable(s.Version), p.state(string(s.State)), s.PID))
	t.row("since", fmt.Sprintf("%s (%s)", s.StartedAt.Local().Format(time.DateTime), now.Sub(s.StartedAt).Round(time.Second)))
	t.row("generation", fmt.Sprintf("%d, holder %s", s.Generation, printable(s.Holder)))
	c := s.Connections
	t.row("connections", fmt.Sprintf("%d active, %d accepted, %d restored, %d failed", c.Active, c.Accepted, c.Restored, c.Failed))
	switch {
	case s.Holder == status.HolderNone && c.Unkept > 0:
		t.row("kept", "none: nobody keeps them (holdfast keep, or a unit of systemd)")
	case c.Kept+c.Unkept+c.Restored+c.Lost > 0:
		t.row("kept", keptLine(c))
	}
	t.row("traffic", fmt.Sprintf("%s in, %s out", size(c.BytesIn), size(c.BytesOut)))
	if c.Unlogged > 0 {
		t.row("log", fmt.Sprintf("%d lines dropped", c.Unlogged))
	}
	for line := range strings.Lines(s.Listeners.LastError) {
		t.row("last change", p.bad(printable(strings.TrimSuffix(line, "\n"))))
	}
	if s.Handover.Last != "" {
		t.row("handover", "took over from "+printable(s.Handover.Last))
	}
	for line := range strings.Lines(s.Handover.LastError) {
		t.row("handover", p.bad("upgrade failed: "+printable(strings.TrimSuffix(line, "\n"))))
	}
}

func printSockets(w io.Writer, sockets []status.Socket, p palette) {
	if len(sockets) == 0 {
		return
	}
	t := newTable(w)
	defer t.flush()
	t.row()
	t.row("SOCKET", "LISTENER", p.plain("STATE"), "ORIGIN", "ACTIVE", "ACCEPTED")
	for _, s := range sockets {
		state := string(s.State)
		if s.Paused {
			state += ", paused"
		}
		t.row(printable(s.Socket), printable(strings.Join(s.Names, ",")), p.state(state), printable(s.Origin),
			fmt.Sprint(s.Connections), fmt.Sprint(s.Accepted))
	}
}

func printServers(w io.Writer, upstreams []status.Upstream, p palette) {
	if len(upstreams) == 0 {
		return
	}
	t := newTable(w)
	defer t.flush()
	t.row()
	t.row("UPSTREAM", "SERVER", p.plain("HEALTH"), "ACTIVE", "LAST ERROR")
	for _, u := range upstreams {
		for _, s := range u.Servers {
			health := p.good("up")
			if !s.Healthy {
				health = p.bad("down")
			}
			t.row(printable(u.Name), printable(s.Address), health, fmt.Sprint(s.Connections), printable(s.LastError))
		}
	}
}

// table aligns columns, two spaces apart.
type table struct {
	w *tabwriter.Writer
}

func newTable(w io.Writer) table {
	return table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
}

// row and flush cannot fail: tables are written to memory.
func (t table) row(cells ...string) {
	_, _ = fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

func (t table) flush() { _ = t.w.Flush() }

// size is a number of bytes with three digits or so: 1023 B, 1.5 KiB.
func size(bytes int64) string {
	const units = "KMGTPE"
	if bytes < 1<<10 {
		return fmt.Sprintf("%d B", bytes)
	}
	value, unit := float64(bytes)/(1<<10), 0
	for value >= 1<<10 && unit < len(units)-1 {
		value /= 1 << 10
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}
