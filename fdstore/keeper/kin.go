package keeper

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
)

// procStat is what /proc/PID/stat says of a process, proc_pid_stat(5).
type procStat struct {
	parent  int
	started uint64 // since boot, in the kernel's ticks
}

func readStat(pid int) (procStat, error) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) //nolint:gosec // a number leads nowhere else
	if err != nil {
		return procStat{}, err
	}
	return parseStat(line)
}

// parseStat counts from behind the name, which may have anything in it.
func parseStat(line []byte) (s procStat, err error) {
	const parent, started = 1, 19 // fields 4 and 22 of the page
	fields := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
	if len(fields) <= started {
		return procStat{}, errors.New("not the stat file of a process")
	}
	if s.parent, err = strconv.Atoi(string(fields[parent])); err != nil {
		return procStat{}, err
	}
	s.started, err = strconv.ParseUint(string(fields[started]), 10, 64)
	return s, err
}

// mostAncestors ends a climb on which processes die and their numbers are given out
// again.
const mostAncestors = 1000

// descends tells whether a process is one of the ancestors or descends from one. It is
// false for a process that nobody knows any more.
func descends(pid int, ancestors ...int) bool {
	for range mostAncestors {
		if pid <= 0 {
			return false
		}
		if slices.Contains(ancestors, pid) {
			return true
		}
		s, err := readStat(pid)
		if err != nil {
			return false
		}
		pid = s.parent
	}
	return false
}
