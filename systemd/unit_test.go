package systemd

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const unitName = "holdfast@a-b.service" // a name that is escaped on the bus

func store(most, stored any) map[string]any {
	return map[string]any{"FileDescriptorStoreMax": most, "NFileDescriptorStore": stored, "LimitNOFILESoft": uint64(1024)}
}

func job(unit, kind string) systemd.JobStatus {
	return systemd.JobStatus{Id: 1, Unit: unit, JobType: kind, Status: "running", JobPath: "/job", UnitPath: "/unit"}
}

func TestWhatTheManagerSaysAboutTheUnit(t *testing.T) {
	startBus(t)
	for _, tt := range []struct {
		name string
		jobs []systemd.JobStatus
		want string
	}{
		{"nothing goes on", nil, ""},
		{"a restart", []systemd.JobStatus{job("a.service", "stop"), job(unitName, "restart")}, "restart"},
		{"a stop", []systemd.JobStatus{job(unitName, "stop"), job("a.service", "restart")}, "stop"},
		{"another unit is restarted", []systemd.JobStatus{job("a.service", "restart")}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			(&manager{unit: unitName, jobs: tt.jobs, service: store(uint32(4096), uint32(7))}).serve(t)
			u, err := AskUnit(t.Context())
			require.NoError(t, err)
			assert.Equal(t, Unit{Name: unitName, Job: tt.want, StoreMax: 4096, Stored: 7, SoftFiles: 1024}, u)
		})
	}
}

func TestWhoIsInNoServiceHasNoManager(t *testing.T) {
	startBus(t)
	for unit, want := range map[string]string{
		"session-1.scope":   "this process is in session-1.scope",
		"init.scope":        "this process is in init.scope",
		"user@1000.service": "this process is in user@1000.service",
		"":                  "no unit",
	} {
		t.Run(unit, func(t *testing.T) {
			(&manager{unit: unit}).serve(t)
			_, err := AskUnit(t.Context())
			require.ErrorIs(t, err, ErrNoManager)
			require.ErrorContains(t, err, want)
		})
	}
	t.Run("a bus without systemd", func(t *testing.T) {
		_, err := AskUnit(t.Context())
		require.ErrorIs(t, err, ErrNoManager)
	})
}

func TestABusThatCannotBeReachedIsNoManager(t *testing.T) {
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus")
	_, err := AskUnit(t.Context())
	require.ErrorIs(t, err, ErrNoManager)
	require.ErrorIs(t, err, unix.ENOENT)
}

func TestAManagerThatAnswersStrangely(t *testing.T) {
	startBus(t)
	for name, service := range map[string]map[string]any{
		"FileDescriptorStoreMax is not a number": store("many", uint32(0)),
		"NFileDescriptorStore is not a number":   store(uint32(1), -1),
		"FileDescriptorStoreMax":                 nil,
	} {
		t.Run(name, func(t *testing.T) {
			(&manager{unit: unitName, service: service}).serve(t)
			u, err := AskUnit(t.Context())
			require.ErrorContains(t, err, name)
			require.NotErrorIs(t, err, ErrNoManager)
			assert.Zero(t, u)
		})
	}
}

func TestAQuestionEndsWithItsContext(t *testing.T) {
	expectDeadline := func(t *testing.T) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := AskUnit(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, ErrNoManager)
	}
	t.Run("a manager that hangs", func(t *testing.T) {
		startBus(t)
		m := &manager{unit: unitName, hang: make(chan struct{})}
		m.serve(t)
		defer close(m.hang)
		expectDeadline(t)
	})
	t.Run("a bus that hangs", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "bus")
		bus, err := net.Listen("unix", path)
		require.NoError(t, err)
		defer bus.Close()
		t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+path)
		expectDeadline(t)
	})
}

func TestManyAskAtOnce(t *testing.T) {
	startBus(t)
	(&manager{unit: unitName, service: store(uint32(1), uint32(0))}).serve(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			u, err := AskUnit(t.Context())
			assert.NoError(t, err)
			assert.Equal(t, unitName, u.Name)
		})
	}
	wg.Wait()
}
