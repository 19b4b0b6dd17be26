package keeper_test

import (
	"bytes"
	"os"
	"strconv"
)

// parentOf is the parent of a process or zombie, 0 if there is none of that number.
func parentOf(pid int) int {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	parent, _ := strconv.Atoi(string(bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])[1]))
	return parent
}

// running tells whether there is a process, and no zombie.
func running(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	state := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])[0]
	return string(state) != "Z" && string(state) != "X"
}
