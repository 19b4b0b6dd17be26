package vmtest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

// tries are what a process may do that an attacker has taken over, each as its name
// and a shell command. $RUNTIME_DIRECTORY can be written. The numbers are system
// calls of amd64.
type tries [][2]string

var forbidden = tries{
	{"write to /etc", "touch /etc/tried && rm /etc/tried"},
	{"write to /usr", "touch /usr/tried && rm /usr/tried"},
	{"write to /opt", "touch /opt/tried && rm /opt/tried"},
	{"write to /var", "touch /var/tried && rm /var/tried"},
	{"write to /run", "touch /run/tried && rm /run/tried"},
	{"write to /run/lock, as anybody may", "touch /run/lock/tried && rm /run/lock/tried"},
	{"read a home", "ls /root"},
	{"run what it has written to its runtime directory", "cd $RUNTIME_DIRECTORY && cp /usr/bin/true tried && ./tried"},
	{"run what it has written to /tmp", "cd /tmp && cp /usr/bin/true tried && ./tried && rm tried"},
	{"run what it has written to /var/tmp", "cd /var/tmp && cp /usr/bin/true tried && ./tried && rm tried"},
	{"run what it has written to /dev/shm", "cd /dev/shm && cp /usr/bin/true tried && ./tried && rm tried"},
	{"write code into memory", "perl -e 'exit(syscall(9, 0, 4096, 7, 0x22, -1, 0) == -1)'"},
	{"make a set-user-ID file", "touch $RUNTIME_DIRECTORY/tried && chmod u+s $RUNTIME_DIRECTORY/tried"},
	{"give a file away", "touch $RUNTIME_DIRECTORY/tried && chown 1 $RUNTIME_DIRECTORY/tried"},
	{"make a device", "mknod $RUNTIME_DIRECTORY/null c 1 3"},
	{"see the console", "test -c /dev/console"},
	{"see other processes", "test -e /proc/1"},
	{"trace a process", "perl -e 'exit(syscall(101, 0, 0, 0, 0) == -1)'"},
	{"read the memory of a process", `perl -e '$b = "x"; $i = pack("PQ", $b, 1); exit(syscall(310, $$ + 0, $i, 1, $i, 1, 0) != 1)'`},
	{"open a raw socket", "perl -e 'socket($s, 2, 3, 1) or exit 1'"},
	{"open a packet socket", "perl -e 'socket($s, 17, 3, 0) or exit 1'"},
	{"add an address", "ip address add 127.0.0.9/8 dev lo && ip address delete 127.0.0.9/8 dev lo"},
	{"change a setting of the kernel", "cd /proc/sys/net/ipv4 && ttl=$(cat ip_default_ttl) && echo $ttl >ip_default_ttl"},
	{"change the name of the host", `hostname "$(hostname)"`},
	{"make a control group", "mkdir /sys/fs/cgroup/tried && rmdir /sys/fs/cgroup/tried"},
	{"make a user namespace", "unshare --user true"},
	{"make a mount namespace", "unshare --mount true"},
	{"change its root", "chroot / true"},
	{"run in real time", "chrt --fifo 1 true"},
	{"change its personality", "setarch --addr-no-randomize true"},
	{"use io_uring", `perl -e '$b = "\0" x 200; exit(syscall(425, 1, $b) == -1)'`},
}

// needed is what Holdfast does itself.
var needed = tries{
	{"write to its runtime directory", "touch $RUNTIME_DIRECTORY/tried && rm $RUNTIME_DIRECTORY/tried"},
	{"make a file in memory", `perl -e '$n = "tried"; exit(syscall(319, $n, 0) == -1)'`},
	{"run a file in memory", `perl -e '$n = "tried"; $f = syscall(319, $n, 0); system("cat /usr/bin/true >/proc/$$/fd/$f"); exit(system("/proc/$$/fd/$f") != 0)'`},
	{"take a descriptor of a process of the same user", "perl -e 'exit(syscall(438, syscall(434, $$ + 0, 0), 1, 0) == -1)'"},
}

// script says which of them work.
func (t tries) script() string {
	var script strings.Builder
	for _, try := range t {
		fmt.Fprintf(&script, "if (%s) >/dev/null 2>&1; then echo '%s'; fi\n", try[1], try[0])
	}
	return script.String()
}

func (t tries) names() []string {
	var names []string
	for _, try := range t {
		names = append(names, try[0])
	}
	return names
}

// Not even root can do more there. What is forbidden works outside, so that it is no
// mistake in the command. Of what is needed systemd-nspawn forbids some by itself.
func TestWhatTheSandboxForbids(t *testing.T) {
	const script, unit, works = "/etc/vmtest-tries", "vmtest-tries.service", "/run/vmtest-tries"
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToApp())
		g.Write(script, forbidden.script()+needed.script())
		outside := strings.Split(g.Run("sh", "-c", "RUNTIME_DIRECTORY=$(mktemp -d) && export RUNTIME_DIRECTORY && sh "+script+"; rm -r $RUNTIME_DIRECTORY"), "\n")
		assert.Subset(t, outside, forbidden.names())

		g.WritePackaged(vmtest.LocalUnits+unit, "systemd/holdfast.service")
		g.Write(works, "")
		for _, user := range []string{"holdfast", "root"} {
			g.DropIn(unit, "[Service]\nType=oneshot\nRestart=no\nExecStart=\nExecStart=sh "+script+"\nStandardOutput=truncate:"+works+"\nUser="+user+"\nGroup=holdfast\n")
			g.Run("systemctl", "start", unit)
			inside := strings.Split(strings.TrimSpace(string(g.Read(works))), "\n")
			assert.Equal(t, outside[len(forbidden):], inside, user)
		}
	})
}
