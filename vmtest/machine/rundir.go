package machine

import (
	"path/filepath"

	"github.com/holdfast-proxy/holdfast/vmtest/scratch"
)

// runDir is the folder of one machine while it runs.
type runDir struct{ *scratch.Dir }

func (d runDir) agentSocket() string { return filepath.Join(d.share(), "agent.sock") }
func (d runDir) console() string     { return filepath.Join(d.Path, "console") }
func (d runDir) initrd() string      { return filepath.Join(d.Path, "initrd") }
func (d runDir) root() string        { return filepath.Join(d.Path, "root") }
func (d runDir) overlay() string     { return filepath.Join(d.Path, "overlay") }
func (d runDir) share() string       { return filepath.Join(d.Path, "share") }
