package vmtest

import (
	"encoding/json"
	"strings"

	"github.com/stretchr/testify/require"
)

// Journal has what a unit has said since the scenario began, as far as it has
// these fields: "NAME=value", where those of one name are alternatives. See
// systemd.journal-fields(7).
func (g *Guest) Journal(unit string, fields ...string) []map[string]string {
	g.t.Helper()
	g.Run("journalctl", "--sync")
	args := []string{"journalctl", "--quiet", "--output=json", "--since=@" + g.began, "_SYSTEMD_UNIT=" + unit}
	var entries []map[string]string
	for line := range strings.Lines(g.Run(append(args, fields...)...)) {
		var raw map[string]any
		require.NoError(g.t, json.Unmarshal([]byte(line), &raw))
		entry := map[string]string{}
		for name, value := range raw {
			entry[name], _ = value.(string) // fields that are not text are empty
		}
		entries = append(entries, entry)
	}
	return entries
}
