package pidfd

import (
	"bytes"
	"strconv"
)

// status is what /proc/PID/status tells about a process: its rights, and whose it is.
type status struct {
	zombie    bool // the main thread has ended
	parent    int  // the process that has started it, or has inherited it
	uids      ids
	gids      ids
	permitted uint64 // capabilities, a bit each
	effective uint64
}

// ids are the real, the effective and the saved one.
type ids [3]int

// same is the id if all are equal, which is the rule.
func (i ids) same() (id int, ok bool) {
	return i[0], i[0] == i[1] && i[1] == i[2]
}

// parseStatus reads the lines that it knows, and says whether all of them were
// there. See proc_pid_status(5).
func parseStatus(text []byte) (s status, ok bool) {
	known := 0
	for line := range bytes.Lines(text) {
		key, value, _ := bytes.Cut(line, []byte(":"))
		fields := bytes.Fields(value)
		if len(fields) == 0 {
			continue
		}
		var err error
		switch string(key) {
		case "State":
			s.zombie = fields[0][0] == 'Z'
		case "PPid":
			s.parent, err = strconv.Atoi(string(fields[0]))
		case "Uid":
			s.uids, err = parseIDs(fields)
		case "Gid":
			s.gids, err = parseIDs(fields)
		case "CapPrm":
			s.permitted, err = strconv.ParseUint(string(fields[0]), 16, 64)
		case "CapEff":
			s.effective, err = strconv.ParseUint(string(fields[0]), 16, 64)
		default:
			continue
		}
		if err != nil {
			return status{}, false
		}
		known++
	}
	if known < 6 {
		return status{}, false
	}
	return s, true
}

func parseIDs(fields [][]byte) (i ids, err error) {
	if len(fields) < len(i) {
		return ids{}, strconv.ErrSyntax
	}
	for n := range i {
		if i[n], err = strconv.Atoi(string(fields[n])); err != nil {
			return ids{}, err
		}
	}
	return i, nil
}

// status is false when /proc does not tell.
func (d *procDir) status() (status, bool) {
	text, err := d.read("status")
	if err != nil {
		return status{}, false
	}
	return parseStatus(text)
}

// mainThreadEnded tells whether the main thread has ended before the others.
func (d *procDir) mainThreadEnded() bool {
	s, ok := d.status()
	return ok && s.zombie
}
