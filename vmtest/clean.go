package vmtest

import (
	"context"

	"github.com/stretchr/testify/assert"

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
// waited for. The arguments are files to remove.
const cleanScript = `
systemctl stop --no-block 'holdfast*' 'vmtest-*'
systemctl kill --signal=KILL 'holdfast*' 'vmtest-*'
systemctl stop 'holdfast*' 'vmtest-*'
systemctl reset-failed
rm -rf "$@" /run/holdfast
userdel holdfast
true`

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
	r, err := g.machine.Run(context.Background(), wire.Command{
		Args: append([]string{"sh", "-c", cleanScript, "sh"}, g.written...), Timeout: patience,
	})
	if assert.NoError(g.t, err) && r.TimedOut {
		g.t.Errorf("the scenario's units do not end: %s", r.Stderr)
	}
}
