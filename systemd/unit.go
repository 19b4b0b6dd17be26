package systemd

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/coreos/go-systemd/v22/dbus"
)

// Unit is what the service manager says about the service of this process.
type Unit struct {
	Name string // like "holdfast.service"

	// Job is the type of the job under way, see org.freedesktop.systemd1(5):
	// "start", "stop", "restart", "reload" …, "" = none. It tells why SIGTERM came:
	// "restart" or "stop". At kill(1) there is none.
	Job string

	// SoftFiles is LimitNOFILESoft=. A start fails that is to pass more descriptors
	// than that, from the store or from socket units.
	SoftFiles int

	StoreMax int // FileDescriptorStoreMax=, descriptors that the store takes; 0 = there is no store
	Stored   int // descriptors in the store now
}

// AskUnit asks the service manager of the system over D-Bus about the service that
// this process belongs to. That takes some milliseconds, two descriptors for the
// time being, and never longer than ctx.
//
// The error is ErrNoManager when nobody can be asked, which is normal: there is no
// bus, or no longer when the host goes down; it turns the user away, as it does
// those of DynamicUser=; or the process is in no service of the system's manager,
// but in a user's, a container or a session.
func AskUnit(ctx context.Context) (Unit, error) {
	u, err := askUnit(ctx)
	if err == nil {
		return u, nil
	}
	// The end of ctx closes the connection, and of that alone the library tells.
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return Unit{}, fmt.Errorf("ask the service manager about this unit: %w", err)
}

func askUnit(ctx context.Context) (u Unit, err error) {
	conn, err := dbus.NewSystemConnectionContext(ctx)
	if err != nil {
		return u, fmt.Errorf("%w: %w", ErrNoManager, err)
	}
	defer conn.Close()
	// 0 is whoever asks. In a PID namespace our own number may be another's outside.
	if u.Name, err = conn.GetUnitNameByPID(ctx, 0); err != nil {
		return u, fmt.Errorf("%w: %w", ErrNoManager, err)
	}
	if !strings.HasSuffix(u.Name, ".service") || strings.HasPrefix(u.Name, "user@") {
		return u, fmt.Errorf("%w: this process is in %s", ErrNoManager, u.Name)
	}
	if u.Job, err = jobOf(ctx, conn, u.Name); err != nil {
		return u, err
	}
	if u.StoreMax, err = serviceNumber(ctx, conn, u.Name, "FileDescriptorStoreMax"); err != nil {
		return u, err
	}
	if u.Stored, err = serviceNumber(ctx, conn, u.Name, "NFileDescriptorStore"); err != nil {
		return u, err
	}
	u.SoftFiles, err = serviceNumber(ctx, conn, u.Name, "LimitNOFILESoft")
	return u, err
}

// jobOf looks into the list of all jobs. The unit names its job too, but that may
// be over before it is asked for its type.
func jobOf(ctx context.Context, conn *dbus.Conn, unit string) (string, error) {
	jobs, err := conn.ListJobsContext(ctx)
	if err != nil {
		return "", err
	}
	for _, job := range jobs {
		if job.Unit == unit {
			return job.JobType, nil
		}
	}
	return "", nil
}

func serviceNumber(ctx context.Context, conn *dbus.Conn, unit, property string) (int, error) {
	p, err := conn.GetServicePropertyContext(ctx, unit, property)
	if err != nil {
		return 0, err
	}
	switch number := p.Value.Value().(type) {
	case uint32:
		return int(number), nil
	case uint64: // a limit; all ones are no limit
		return int(min(number, math.MaxInt32)), nil
	}
	return 0, fmt.Errorf("%s is not a number: %v", property, p.Value)
}
