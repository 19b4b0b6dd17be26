package vmtest_test

import (
	"embed"
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

//go:embed testdata/*.py
var scripts embed.FS

// lasting are clients that stay connected, and fail when they are disturbed.
type lasting struct {
	t            *testing.T
	g            *vmtest.Guest
	redisClients int // that have connected to its server
}

// Their addresses in the configuration of lastingRoutes.
var lastingRoutes = []struct{ name, listen, server string }{
	{"redis", "tcp://127.0.0.1:6380", "tcp://127.0.0.1:6379"},
	{"postgres", "tcp://127.0.0.1:6432", "tcp://127.0.0.1:5432"},
	{"ssh", "tcp://127.0.0.1:2222", "tcp://127.0.0.1:22"},
	{"websocket", "tcp://127.0.0.1:9091", "tcp://127.0.0.1:9090"},
}

// lastingConfig is the part of a configuration that they need.
func lastingConfig() (config string) {
	for _, r := range lastingRoutes {
		config += fmt.Sprintf("[listener.%s]\nupstream = %q\nlisten = %q\n[upstream.%s]\nservers = %q\n", r.name, r.name, r.listen, r.name, r.server)
	}
	return config
}

// PostgreSQL runs on a copy of the cluster that its package has made.
const startPostgres = `mkdir -m 700 /run/vmtest-postgres
cp -r /var/lib/postgresql/*/main/. /run/vmtest-postgres
echo 'host all all 127.0.0.1/32 trust' >/run/vmtest-postgres/pg_hba.conf
: >/run/vmtest-postgres/pg_ident.conf
: >/run/vmtest-postgres/postgresql.conf
chown -R postgres: /run/vmtest-postgres
systemd-run --quiet --unit=vmtest-postgres --uid=postgres sh -c 'exec /usr/lib/postgresql/*/bin/postgres \
	-D /run/vmtest-postgres -c listen_addresses=127.0.0.1 -c unix_socket_directories= \
	-c fsync=off -c jit=off -c shared_buffers=16MB'
table='create table counts as select id, 0 as n from generate_series(0, 3) id'
until psql --quiet --host 127.0.0.1 -U postgres -c "$table" >/dev/null 2>&1; do sleep 0.2; done`

// What each client of pgbench does in a transaction. The tables that it makes itself are
// larger than an emulated machine can fill in a moment.
const transaction = `begin;
update counts set n = n + 1 where id = :client_id;
select n from counts where id = :client_id;
end;`

// prepareLasting starts the servers.
func prepareLasting(t *testing.T, g *vmtest.Guest) *lasting {
	for _, name := range []string{"websocket.py", "shell.py"} {
		script, err := scripts.ReadFile("testdata/" + name)
		require.NoError(t, err)
		g.Write("/run/vmtest-"+name, string(script))
	}
	g.StartUnit("redis", "redis-server", "--save", "")
	g.StartUnit("websocket-server", "--service-type=notify", "python3", "/run/vmtest-websocket.py", "server", "9090")
	g.Run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/run/vmtest-key")
	g.StartUnit("sshd", "--property=RuntimeDirectory=sshd", "/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null",
		"-o", "ListenAddress=127.0.0.1:22", "-o", "AuthorizedKeysFile=/run/vmtest-key.pub",
		"-o", "StrictModes=no", "-o", "UsePAM=no", "-o", "PidFile=none")
	g.Write("/run/vmtest-transaction", transaction)
	g.Run("sh", "-e", "-c", startPostgres)
	return &lasting{t: t, g: g}
}

const redisBenchmarks, pgbenches = 20, 4

// begin starts the clients, and returns when each is connected.
func (l *lasting) begin() (clients int) {
	g := l.g
	g.StartUnit("redis-benchmark", "--nice=19", "--property=CPUQuota=3%", "redis-benchmark",
		"-p", "6380", "-c", strconv.Itoa(redisBenchmarks), "-n", "1000000000", "-t", "set", "-q")
	g.StartUnit("pgbench", "--remain-after-exit", "sh", "-c",
		fmt.Sprintf("exec /usr/lib/postgresql/*/bin/pgbench -h 127.0.0.1 -p 6432 -U postgres -n -f /run/vmtest-transaction -c %d -R 5 -T 3600 postgres", pgbenches))
	g.StartUnit("websocket", "--service-type=notify", "--remain-after-exit", "python3", "/run/vmtest-websocket.py", "client", "9091")
	g.StartUnit("ssh", "--service-type=notify", "--remain-after-exit", "python3", "/run/vmtest-shell.py",
		"ssh", "-tt", "-F", "none", "-i", "/run/vmtest-key", "-p", "2222", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR",
		"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "root@127.0.0.1", "exec sh")
	g.Await("all clients of redis-benchmark", func() bool { return l.redisInfo("connected_clients") > redisBenchmarks })
	l.redisClients = l.redisInfo("total_connections_received")
	return redisBenchmarks + pgbenches + 2
}

// redisInfo is a number in what INFO says. It takes a connection.
func (l *lasting) redisInfo(name string) int {
	l.t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + `:(\d+)`).FindStringSubmatch(l.g.Run("redis-cli", "info"))
	require.NotNil(l.t, found, name)
	n, err := strconv.Atoi(found[1])
	require.NoError(l.t, err)
	return n
}

// assertUndisturbed ends the clients, none of which has failed.
func (l *lasting) assertUndisturbed() {
	l.t.Helper()
	g := l.g
	before := l.redisInfo("total_commands_processed")
	assert.Equal(l.t, l.redisClients+1, l.redisInfo("total_connections_received")-1, "nobody has connected anew to redis")
	g.Await("requests of redis-benchmark", func() bool { return l.redisInfo("total_commands_processed") > before+100 })
	assert.Equal(l.t, "running", g.Property("vmtest-redis-benchmark.service", "SubState"))
	g.Run("systemctl", "stop", "vmtest-redis-benchmark.service")
	assert.NotRegexp(l.t, "(?i)error|reset|closed", g.Run("journalctl", "--quiet", "--output=cat", "--boot", "--unit=vmtest-redis-benchmark.service"))
	// The signal by which it tells itself that its time is up.
	assert.Contains(l.t, l.end("pgbench", "ALRM"), "number of failed transactions: 0 ")
	assert.Contains(l.t, l.end("websocket", "TERM"), "messages there and back")
	assert.Contains(l.t, l.end("ssh", "TERM"), "asked ")
}

// end ends a client, and returns what it has said.
func (l *lasting) end(client, signal string) string {
	l.t.Helper()
	unit := "vmtest-" + client + ".service"
	l.g.Run("systemctl", "kill", "--kill-who=main", "--signal="+signal, unit)
	l.g.Await("the end of "+client, func() bool { return l.g.Property(unit, "SubState") != "running" })
	assert.Equal(l.t, "exited", l.g.Property(unit, "SubState"), client)
	assert.Equal(l.t, "0", l.g.Property(unit, "ExecMainStatus"), client)
	l.g.Run("journalctl", "--sync")
	said := l.g.Run("journalctl", "--quiet", "--output=cat", "--since=-1m", "--unit="+unit)
	l.t.Logf("%s: %s", client, said)
	return said
}
