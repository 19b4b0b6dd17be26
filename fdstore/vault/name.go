package vault

import (
	"fmt"
	"strconv"
	"strings"
)

// TableName is the name that the table has in a store.
const TableName = namePrefix + "table"

// MemfdName is the name of the table's memfd: /proc/PID/fd shows it as
// "/memfd:holdfast-vault (deleted)", twice in its owner.
const MemfdName = "holdfast-vault"

const (
	namePrefix = "vault/"
	inSuffix   = "/in"
	outSuffix  = "/out"

	mostID = 1 << 31 // of a segment; no vault comes to that
)

// IsName tells whether a descriptor of that name in a store is a vault's.
func IsName(name string) bool {
	_, _, ok := parseName(name)
	return ok || name == TableName
}

// IsTable tells whether a link of /proc/PID/fd leads to a vault's table.
func IsTable(link string) bool {
	return strings.TrimSuffix(link, " (deleted)") == "/memfd:"+MemfdName
}

func inName(id uint32) string  { return fmt.Sprint(namePrefix, id, inSuffix) }
func outName(id uint32) string { return fmt.Sprint(namePrefix, id, outSuffix) }

// parseName is the segment and the end of it that a name stands for.
func parseName(name string) (id uint32, out, ok bool) {
	rest, ok := strings.CutPrefix(name, namePrefix)
	if !ok {
		return 0, false, false
	}
	number, in := strings.CutSuffix(rest, inSuffix)
	if !in {
		if number, out = strings.CutSuffix(rest, outSuffix); !out {
			return 0, false, false
		}
	}
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || n == 0 || n > mostID || strconv.FormatUint(n, 10) != number {
		return 0, false, false
	}
	return uint32(n), out, true
}
