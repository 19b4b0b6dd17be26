package keeper_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

// childrenOf are the children of a process, zombies too.
func childrenOf(pid int) (children []int) {
	files, _ := filepath.Glob("/proc/[0-9]*")
	for _, file := range files {
		if child, _ := strconv.Atoi(filepath.Base(file)); parentOf(child) == pid {
			children = append(children, child)
		}
	}
	return children
}

// sockets are those that a process has open.
func sockets(pid int) (open []string) {
	files, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
	for _, file := range files {
		if to, err := os.Readlink(file); err == nil && strings.HasPrefix(to, "socket:") {
			open = append(open, to)
		}
	}
	return open
}
