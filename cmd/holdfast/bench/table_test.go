package bench

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// results is the table that is printed when all benchmarks have run.
var results table

type table []row

// columns are the peers, as they stand in the table.
var columns = []peer{holdfast, unkept, haproxy, haproxySplice, nginx, socketProxyd}

type row struct {
	figure, unit string
	median       map[string]float64 // by peer
}

// print shows the medians, and Holdfast's as a multiple of HAProxy's.
func (t table) print(w io.Writer) {
	if len(t) == 0 {
		return
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprint(out, "\nfigure\tunit\t")
	for _, p := range columns {
		_, _ = fmt.Fprintf(out, "%s\t", p.name)
	}
	_, _ = fmt.Fprintf(out, "%s/%s\t\n", holdfast.name, haproxy.name)
	for _, r := range t {
		_, _ = fmt.Fprintf(out, "%s\t%s\t", r.figure, r.unit)
		for _, p := range columns {
			if m, ok := r.median[p.name]; ok {
				_, _ = fmt.Fprintf(out, "%.2f\t", m)
			} else {
				_, _ = fmt.Fprint(out, "–\t")
			}
		}
		_, _ = fmt.Fprintf(out, "%.2f\t\n", r.ratio())
	}
	_ = out.Flush()
}

func (r row) ratio() float64 { return r.median[holdfast.name] / r.median[haproxy.name] }

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
