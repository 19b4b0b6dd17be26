package vmtest

import (
	"context"
	"fmt"

	"github.com/holdfast-proxy/holdfast/vmtest/wire"
)

// diagnoseScript shows what a person would look at first. $1 is when the scenario
// began. Of a long journal it shows both ends: a traceback, or a service that is
// started again and again, fills the last one.
const diagnoseScript = `
journal=$(mktemp)
journalctl --no-pager --quiet --output=short-precise --since="@$1" >"$journal"
lines=$(wc -l <"$journal")
if [ "$lines" -le 500 ]; then
	cat "$journal"
else
	head -n 100 "$journal"
	echo "(… $((lines - 500)) lines …)"
	tail -n 400 "$journal"
fi
rm "$journal"
echo
systemctl status --no-pager --full --lines=0 'holdfast*' 'vmtest-*.service'
ss -tlnp
ss -xlnp | grep -e holdfast -e guest`

// cleanScript ends what a scenario has started. A service that drains is not
// waited for. The arguments are files to remove. It fails if any of it is left, or
// systemd does not answer.
const cleanScript = `
systemctl stop --no-block 'holdfast*' 'vmtest-*'
systemctl kill --signal=KILL 'holdfast*' 'vmtest-*'
systemctl stop 'holdfast*' 'vmtest-*'
systemctl reset-failed
rm -rf "$@" /run/holdfast /run/vmtest-* || exit
if grep -q ^holdfast: /etc/passwd; then userdel holdfast || exit; fi
left=$(systemctl list-units --plain --no-legend --state=active,reloading,activating,deactivating 'holdfast*' 'vmtest-*') || exit
[ -z "$left" ] || { echo "still there: $left" >&2; exit 1; }`

func (g *Guest) diagnose() {
	g.t.Helper()
	r, err := g.machine.Run(context.Background(), wire.Command{
		Args: []string{"sh", "-c", diagnoseScript, "sh", g.began}, Timeout: patience,
	})
	if err != nil {
		g.t.Logf("no journal: %v", err)
		return
	}
	g.t.Logf("the guest's journal and units:\n%s%s", r.Stdout, r.Stderr)
}

func (g *Guest) clean() {
	g.t.Helper()
	if err := g.restore(); err != nil {
		g.t.Errorf("the machine is not as it was before the scenario: %v", err)
	}
}

// restore makes the machine as it was before the scenario. One with which that
// cannot be done is killed: it would fail the next scenario, too.
func (g *Guest) restore() error {
	r, err := g.machine.Run(context.Background(), wire.Command{
		Args: append([]string{"sh", "-c", cleanScript, "sh"}, g.written...), Timeout: patience,
	})
	switch {
	case err != nil:
	case r.TimedOut:
		err = fmt.Errorf("no end within %v: %s", patience, r.Stderr)
	case r.Code != 0:
		err = fmt.Errorf("exit code %d: %s", r.Code, r.Stderr)
	}
	if err != nil {
		g.machine.Kill()
	}
	return err
}
