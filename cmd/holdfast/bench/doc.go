// Package bench measures what Holdfast costs beside the proxies it replaces:
// HAProxy, nginx and systemd-socket-proxyd, each in a minimal config, in one run
// on one machine.
//
// Each figure is CPU time or memory of the proxy's own processes for a fixed
// amount of work; what the work takes on the clock depends on the load generator
// and is not the point. Proxies take turns, round by round, and the median of the
// rounds counts, so that a slow minute of the machine hits all of them. Load and
// servers run in processes of their own: the test binary starts itself again for
// them.
//
//	make bench
//
// The flags -rounds and -scale of the test binary make it shorter or steadier.
package bench
