package testbed

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Memory is the user memory of the process and its workers in bytes: the
// proportional set size, which counts a page that n processes share as 1/n of it
// in each, and shared memory like any other (proc_pid_smaps(5)).
func (p *Process) Memory(t testing.TB) int64 {
	t.Helper()
	var total int64
	for _, pid := range p.group(t) {
		rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(rollup) {
			if kib, ok := strings.CutPrefix(string(line), "Pss:"); ok {
				n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(kib), " kB"), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				total += n * 1024
			}
		}
	}
	return total
}

// CPU is the time that the process and its workers have spent, user and system,
// to the nanosecond, ended threads included.
func (p *Process) CPU(t testing.TB) time.Duration {
	t.Helper()
	var total time.Duration
	for _, pid := range p.group(t) {
		// The kernel's MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED), see
		// clock_getcpuclockid(3).
		const clockSched = 2
		var ts unix.Timespec
		if err := unix.ClockGettime(int32(^pid<<3|clockSched), &ts); err != nil {
			t.Fatalf("CPU clock of %d: %v", pid, err)
		}
		total += time.Duration(ts.Nano())
	}
	return total
}

// Descriptors counts the open descriptors of the process by kind: "socket",
// "seqpacket" (a Unix socket of that type), "pipe", "anon_inode:[eventpoll]", or the path
// of a file.
func (p *Process) Descriptors(t testing.TB) map[string]int {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", p.Pid())
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	packets := seqpackets(t)
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil {
			continue // closed since
		}
		if packets[target] {
			target = "seqpacket"
		}
		for _, kind := range []string{"socket", "pipe"} {
			if strings.HasPrefix(target, kind+":[") {
				target = kind
			}
		}
		kinds[target]++
	}
	return kinds
}

// seqpackets are the sockets of that type, as /proc/PID/fd shows them.
func seqpackets(t testing.TB) map[string]bool {
	t.Helper()
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(table)) {
		// Num RefCount Protocol Flags Type St Inode Path
		if fields := strings.Fields(line); len(fields) >= 7 && fields[4] == "0005" {
			found["socket:["+fields[6]+"]"] = true
		}
	}
	return found
}

// group lists the processes of the group that p leads, and those that p itself has
// started in other groups, as a keeper does.
func (p *Process) group(t testing.TB) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	leader := strconv.Itoa(p.Pid())
	var pids []int
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil {
			continue // ended since
		}
		// pid (comm) state ppid pgrp …; comm may hold anything, so count from its end.
		fields := strings.Fields(string(line[bytes.LastIndexByte(line, ')')+1:]))
		if parent, group := fields[1], fields[2]; parent != leader && group != leader {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}
