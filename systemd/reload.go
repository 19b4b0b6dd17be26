package systemd

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// Reloading says that a reload has begun. Ready must follow in any case, also when
// the reload is refused: "systemctl reload" waits for it until it times out.
//
// systemd 253 and later needs it in units of Type=notify-reload. In others it only
// shows the unit as reloading until Ready.
func (n *Notifier) Reloading() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("notify the service manager: clock_gettime: %w", err)
	}
	// By the time the manager tells this reload from one that began before it asked.
	return n.Send("RELOADING=1", "MONOTONIC_USEC="+strconv.FormatInt(now.Nano()/1000, 10))
}
