package fdstore

import (
	"fmt"
	"strings"
)

// maxName is FDNAME_MAX of systemd, in bytes.
const maxName = 255

// checkName holds a name against fdname_is_valid of systemd, which would store what
// has a bad one as "stored". It takes the empty name, which nobody could tell from
// none.
func checkName(name string) error {
	switch {
	case name == "" || len(name) > maxName || strings.ContainsFunc(name, notInName):
		return fmt.Errorf("%.40q is no name for a kept descriptor: 1 to %d bytes of printable ASCII without a colon", name, maxName)
	case isCanary(name):
		return fmt.Errorf("%s is no name for a kept descriptor: %s is for the store's own", name, canaryPrefix)
	}
	return nil
}

func notInName(r rune) bool {
	return r < ' ' || r > '~' || r == ':'
}
