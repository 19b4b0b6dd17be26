package daemon

import (
	"log/slog"

	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// warnNoEffect names what somebody has set and this version reads, checks and does
// not act on. defaults are the settings of somebody who has set nothing.
func warnNoEffect(log *slog.Logger, set, defaults config.Global) {
	for _, s := range []struct {
		key, value string
		isDefault  bool
		instead    string
	}{
		{"keep", string(set.Keep), set.Keep == defaults.Keep, "nothing outlives the process"},
		{"on_term", string(set.OnTerm), set.OnTerm == defaults.OnTerm, "TERM always drains"},
	} {
		if !s.isDefault {
			log.Warn("setting without effect in this version: "+s.instead, "key", s.key, "value", s.value)
		}
	}
}
