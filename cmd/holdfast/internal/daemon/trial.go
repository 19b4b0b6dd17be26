package daemon

import (
	"slices"

	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/vault"
)

// beginTrial is called when this process serves alone, and may have to give up yet: the
// original can accept again. It has lent the vault's files.
func (d *daemon) beginTrial(lent []fdstore.Held) {
	d.reserve(d.countKept(lent), len(lent))
	d.reopenAsks()
}

// countKept is how many connections and pipes a vault keeps.
func (d *daemon) countKept(files []fdstore.Held) int {
	i := slices.IndexFunc(files, func(f fdstore.Held) bool { return f.Name == vault.TableName })
	if i < 0 {
		return 0
	}
	n, err := vault.Count(files[i].FD.Raw())
	if err != nil {
		d.log.Debug("the connections of the running instance are not counted", "error", err.Error())
	}
	return n
}

// reserve leaves descriptors for so many connections that another process keeps, in that
// many files: who comes before these are here is not to have them. The files are copied
// when they are read, and as many may be added.
func (d *daemon) reserve(connections, files int) {
	if connections > 0 {
		d.engine.Reserve(2*connections + 2*files + spareFiles)
	}
}
