package daemon

import (
	"log/slog"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/vault"
)

// tookBack is what the holder kept for this process.
type tookBack struct {
	store   fdstore.Returned
	sockets *activation.Source
	vault   []fdstore.Held // of connections
	kept    kept           // zero when nothing was kept, or nothing that this version can read
}

// takeBack takes what came from the store out of what came from socket units.
func takeBack(units *activation.Source, log *slog.Logger) tookBack {
	stored := units.Split(isStored, activation.Store)
	held := make([]fdstore.Held, len(stored.Offers))
	for i, o := range stored.Offers {
		held[i] = fdstore.Held(o)
	}
	stored.Offers = nil
	back := tookBack{store: fdstore.Reconcile(held, isOurs), sockets: stored}
	for _, s := range back.store.Stale {
		log.Warn("stored descriptor dropped", "name", s.Name, "reason", s.Reason)
	}
	for _, f := range back.store.Foreign {
		log.Warn("stored descriptor left alone: this version does not know it", "name", f.Name)
	}
	known := back.store.Known
	back.store.Known = nil
	for _, h := range known {
		if sock.IsStoreName(h.Name) {
			back.store.Known = append(back.store.Known, h)
			back.sockets.Offers = append(back.sockets.Offers, activation.Offer(h))
			continue
		}
		if vault.IsName(h.Name) {
			back.store.Known = append(back.store.Known, h)
			back.vault = append(back.vault, h)
			continue
		}
		k, err := readKept(h.FD)
		if err != nil {
			// It would keep the place, and the name, of one that can be read.
			log.Warn("kept configuration dropped", "name", h.Name, "error", err.Error())
			back.store.Stale = append(back.store.Stale, fdstore.Stale{Name: h.Name, Reason: err.Error()})
			_ = h.FD.Close()
			continue
		}
		back.store.Known = append(back.store.Known, h)
		if k.Current.Number > back.kept.Current.Number {
			back.kept = k
		}
	}
	return back
}

// close closes the copies of what the store goes on keeping and this process needs no
// more.
func (b tookBack) close() {
	_ = b.sockets.Close()
	for _, h := range b.store.Foreign {
		_ = h.FD.Close()
	}
	for _, h := range b.store.Known {
		if isState(h.Name) {
			_ = h.FD.Close()
		}
	}
}

func readKept(fd *sock.FD) (kept, error) {
	content, err := fdstore.ReadMemfd(fd.Raw(), mostKept)
	if err != nil {
		return kept{}, err
	}
	return decodeKept(content)
}
