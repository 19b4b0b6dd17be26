package daemon

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/proxy/status"
	"github.com/holdfast-proxy/holdfast/systemd"
)

// keepPatience is how long the holder may take for one request. systemd compares each
// descriptor with all that it has: with thousands that takes seconds.
const keepPatience = 30 * time.Second

// openPatience is how long it may take to answer at all. What is no service manager
// may have made the socket, and never read from it.
const openPatience = 5 * time.Second

// spareFiles is how many descriptors are left for socket units and the first steps of
// a start, below its soft limit.
const spareFiles = 64

// keeping is what the holder keeps of this instance: the sockets that it has bound,
// and the configuration in service. The zero value keeps nothing. Its methods may be
// called from any goroutine.
type keeping struct {
	store    *fdstore.Store // nil = there is no holder
	log      *slog.Logger
	removals *removals
}

// openKeeping finds out whether there is a holder. back is what came from it.
func openKeeping(notify *systemd.Notifier, back fdstore.Returned, log *slog.Logger) keeping {
	if notify == nil {
		return keeping{}
	}
	most := systemd.StoreFromEnv()
	if unit, err := askUnit(); err == nil {
		most = max(1, min(unit.StoreMax, unit.SoftFiles-spareFiles))
	}
	ctx, cancel := context.WithTimeout(context.Background(), openPatience)
	defer cancel()
	store, err := fdstore.Open(ctx, notify, back, fdstore.Options{Max: most})
	if err != nil {
		log.Info("nothing is kept when this process ends", "reason", err.Error())
		return keeping{}
	}
	return keeping{store, log, &removals{}}
}

// holder is who keeps.
func (k keeping) holder() string {
	if k.store == nil {
		return status.HolderNone
	}
	return status.HolderSystemd
}

// push gives the holder sockets, and the configuration that is to be in service, as
// far as it has not got them, and returns their names. It keeps all of it then, or,
// after an error, nothing of that.
func (k keeping) push(sockets []activation.Socket, state kept) ([]string, error) {
	if k.store == nil {
		return nil, nil
	}
	var entries []fdstore.Entry
	var names []string
	for _, s := range sockets {
		if name := s.StoreName(); !k.store.Has(name) {
			entries = append(entries, fdstore.Entry{Name: name, FD: s.FD.Raw()})
		}
	}
	if name := stateName(state.Current.Number); !k.store.Has(name) {
		content, err := state.encode()
		if err != nil {
			return nil, err
		}
		memory, err := fdstore.Memfd(name, content)
		if err != nil {
			return nil, err
		}
		defer memory.Close()
		entries = append(entries, fdstore.Entry{Name: name, FD: memory.Raw()})
	}
	for _, e := range entries {
		names = append(names, e.Name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), keepPatience)
	defer cancel()
	return names, k.store.Push(ctx, entries...)
}

// remove takes descriptors out of the holder's hands. Names of what it has not are
// passed over.
func (k keeping) remove(names ...string) error {
	if k.store == nil {
		return nil
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !k.store.Has(name) })
	if len(names) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), keepPatience)
	defer cancel()
	return k.store.Remove(ctx, names...)
}

// removeOne is remove for one of many that are closed at once.
func (k keeping) removeOne(name string) error {
	if k.store == nil {
		return nil
	}
	return k.removals.add(name, k.remove)
}

// settle drops every kept configuration but that of a generation, if it has that one.
func (k keeping) settle(generation uint64) {
	if k.store == nil || !k.store.Has(stateName(generation)) {
		return // there was no room: an older one is better than none
	}
	k.drop(func(name string) bool { return isState(name) && name != stateName(generation) })
}

// clear drops all that this program has put there.
func (k keeping) clear() { k.drop(isOurs) }

// drop removes what which tells. That it cannot is for the log: a start tells what is
// in service from what is left over.
func (k keeping) drop(which func(name string) bool) {
	if k.store == nil {
		return
	}
	if err := k.remove(slices.DeleteFunc(k.store.Names(), func(name string) bool { return !which(name) })...); err != nil {
		k.log.Warn("cannot take descriptors out of the store", "error", err.Error())
	}
}

// isOurs tells the names of what this program puts into a store, in this version.
func isOurs(name string) bool { return sock.IsStoreName(name) || isState(name) }

// isStored tells names of a store from those of socket units, which are names of
// listeners or units: all that this program gives, in any version, have a "/".
func isStored(name string) bool { return strings.Contains(name, "/") }
