package keeper

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// The record says which process is the main one, in one line: its number, when it was
// started, and the boot that both count from.

// note writes the record for the next keeper.
func (p *place) note(pid int) error {
	if p.record == "" {
		return nil
	}
	line, err := recordOf(pid)
	if err != nil {
		return err
	}
	fresh := p.record + ".new"
	if err := os.WriteFile(fresh, []byte(line), 0o600); err != nil { //nolint:gosec // the administrator's directory
		return err
	}
	return os.Rename(fresh, p.record)
}

// forget removes the record, as the process has ended.
func (p *place) forget() error {
	if p.record == "" {
		return nil
	}
	if err := os.Remove(p.record); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// recorded opens the process that a keeper before this one has left, if it runs. It
// gives nil if there is none.
func (p *place) recorded() (*process, error) {
	if p.record == "" {
		return nil, nil //nolint:nilnil // no process is no error
	}
	line, err := os.ReadFile(p.record)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no process is no error
	}
	if err != nil {
		return nil, err
	}
	if !bytes.HasSuffix(line, []byte{'\n'}) { // as a loss of power leaves it, which has left no process either
		return nil, nil //nolint:nilnil // no process is no error
	}
	var pid int
	if _, err := fmt.Sscan(string(line), &pid); err != nil {
		return nil, fmt.Errorf("%s: not the record of a process", p.record)
	}
	process, err := openProcess(pid)
	if err != nil {
		return nil, nil //nolint:nilnil,nilerr // it has ended
	}
	// Whose number it is now is looked up when it cannot be given to another any more.
	now, err := recordOf(pid)
	if err != nil || now != string(line) || process.ended() {
		process.close()
		return nil, nil //nolint:nilnil,nilerr // it has ended
	}
	return process, nil
}

func recordOf(pid int) (string, error) {
	s, err := readStat(pid)
	if err != nil {
		return "", err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d %d %s\n", pid, s.started, strings.TrimSpace(string(boot))), nil
}
