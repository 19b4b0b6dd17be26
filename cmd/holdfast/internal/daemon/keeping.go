package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/keeper"
	"github.com/holdfast-proxy/holdfast/fdstore/vault"
	"github.com/holdfast-proxy/holdfast/proxy/status"
	"github.com/holdfast-proxy/holdfast/systemd"
)

// keepPatience is how long the holder may take for one request. systemd compares each
// descriptor with all that it has: with thousands that takes seconds.
const keepPatience = 30 * time.Second

// openPatience is how long it may take to answer at all before the start goes on
// without it. What is no service manager may have made the socket, and never read
// from it.
const openPatience = 5 * time.Second

// spareFiles is how many descriptors are left for socket units and the first steps of
// a start, below its soft limit.
const spareFiles = 64

// errSilent is why nothing can be kept for now.
var errSilent = errors.New("the service manager, which keeps the sockets, does not answer")

// keeping is what the holder keeps of this instance: the sockets that it has bound,
// and the configuration in service. The zero value keeps nothing. Its methods may be
// called from any goroutine.
type keeping struct {
	log        *slog.Logger
	notify     *systemd.Notifier
	invocation string                        // of the service by its manager
	store      atomic.Pointer[fdstore.Store] // nil = there is no holder, or it is silent, or keeps nothing
	silent     atomic.Bool                   // nobody has answered yet
	promised   bool                          // somebody keeps, whether he answers or not
	client     *keeper.Client                // nil = the holder is no keeper
	untried    atomic.Pointer[fdstore.Store] // the one to be tried
	renewed    func() *fdstore.Store         // makes one for a keeper that has nothing
	capacity   capacity                      // of the holder's store; nil = it is what it was at the start
	full       chan struct{}                 // something had no room there: see followCapacity
	removals   removals
}

// newKeeping keeps nothing until find. It takes the keeper out of the environment.
func newKeeping(notify *systemd.Notifier, log *slog.Logger) *keeping {
	return &keeping{log: log, notify: notify, invocation: os.Getenv("INVOCATION_ID"), client: keeper.ClientFromEnv(), full: make(chan struct{}, 1)}
}

// find finds out whether there is a holder, before until ends. back is what it has
// already.
func (k *keeping) find(until context.Context, back fdstore.Returned) {
	if k.notify == nil {
		return
	}
	ctx, cancel := context.WithTimeout(until, openPatience)
	defer cancel()
	most := systemd.StoreFromEnv()
	k.promised = most > 0 || len(back.Known)+len(back.Foreign)+len(back.Stale) > 0
	if k.client == nil {
		k.capacity = capacityOfUnit
		if now, err := k.capacity(ctx); err == nil {
			k.promised = k.promised || now > 0
			most = max(1, now)
		}
	}
	o := fdstore.Options{Max: most}
	k.untried.Store(fdstore.New(k.notify, back, o))
	k.renewed = func() *fdstore.Store { return fdstore.New(k.notify, fdstore.Returned{}, o) }
	if err := k.open(ctx); err != nil {
		k.log.Warn("not kept when this process ends, for now", "reason", err.Error())
	}
}

// open talks to the holder for the first time, and again while it is silent, or keeps
// nothing although it should. The error tells that it may yet.
func (k *keeping) open(ctx context.Context) error {
	store := k.untried.Load()
	err := store.Probe(ctx)
	switch {
	case err == nil:
		k.store.Store(store)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		k.silent.Store(true)
		return err
	case k.promised:
		k.silent.Store(false)
		return err
	default:
		k.log.Info("nothing is kept when this process ends", "reason", err.Error())
	}
	k.silent.Store(false)
	return nil
}

// mayOpen tells whether nobody keeps anything, and somebody may yet.
func (k *keeping) mayOpen() bool {
	return k.store.Load() == nil && (k.silent.Load() || k.promised)
}

// names are those of all that the holder has.
func (k *keeping) names() []string {
	if store := k.store.Load(); store != nil {
		return store.Names()
	}
	return nil
}

// exists tells whether somebody keeps what this instance has, or has kept it before.
func (k *keeping) exists() bool { return k.store.Load() != nil || k.isLate() }

// isLate tells whether there is a holder that has not answered yet.
func (k *keeping) isLate() bool { return k.promised && k.silent.Load() }

// holder is who keeps.
func (k *keeping) holder() string {
	switch {
	case k.store.Load() == nil:
		return status.HolderNone // also while it is silent
	case k.client == nil:
		return status.HolderSystemd
	case k.client.Answers():
		return status.HolderKeeper
	}
	return status.HolderNone // the next one, if there is one, has not got everything yet
}

// push gives the holder sockets, and the configuration that is to be in service, as
// far as it has not got them, and returns their names. It keeps all of it then, or,
// after an error, nothing of that.
func (k *keeping) push(ctx context.Context, sockets []activation.Socket, state kept) ([]string, error) {
	store := k.store.Load()
	switch {
	case k.isLate():
		return nil, errSilent
	case store == nil:
		return nil, nil
	}
	var entries []fdstore.Entry
	var names []string
	for _, s := range sockets {
		if name := storedName(s); !store.Has(name) {
			entries = append(entries, fdstore.Entry{Name: name, FD: s.FD.Raw()})
		}
	}
	if name := stateName(state.Current.Number); !store.Has(name) {
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
	ctx, cancel := context.WithTimeout(ctx, keepPatience)
	defer cancel()
	return names, k.noteFull(store.Push(ctx, entries...))
}

// remove takes descriptors out of the holder's hands. Names of what it has not are
// passed over.
func (k *keeping) remove(ctx context.Context, names ...string) error {
	store := k.store.Load()
	if store == nil {
		return nil
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !store.Has(name) })
	if len(names) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, keepPatience)
	defer cancel()
	return store.Remove(ctx, names...)
}

// removeOne is remove for one of many that are closed at once.
func (k *keeping) removeOne(name string) error {
	if k.store.Load() == nil {
		return nil
	}
	return k.removals.add(name, func(names ...string) error { return k.remove(context.Background(), names...) })
}

// settle drops every kept configuration but that of a generation, if it has that one.
func (k *keeping) settle(ctx context.Context, generation uint64) {
	if store := k.store.Load(); store == nil || !store.Has(stateName(generation)) {
		return // there was no room: an older one is better than none
	}
	k.drop(ctx, func(name string) bool { return isState(name) && name != stateName(generation) })
}

// clear drops all that this program has put there.
func (k *keeping) clear() { k.drop(context.Background(), isOurs) }

// drop removes what which tells. That it cannot is for the log: a start tells what is
// in service from what is left over.
func (k *keeping) drop(ctx context.Context, which func(name string) bool) {
	store := k.store.Load()
	if store == nil {
		return
	}
	err := k.remove(ctx, slices.DeleteFunc(store.Names(), func(name string) bool { return !which(name) })...)
	if err != nil && !errors.Is(err, context.Canceled) { // which is a stop
		k.log.Warn("cannot take descriptors out of the store", "error", err.Error())
	}
}

// storedName is the name under which a socket is in the store, or would be. One that
// came from there has the name that it came with: somebody else may have put it there.
func storedName(s activation.Socket) string {
	if s.Origin == activation.Store {
		return s.Name
	}
	return s.StoreName()
}

// identity tells the holder from any other: which service manager, which of its services, and
// which keeper, as one that has died leaves its address to the next. "" = there is none.
func (k *keeping) identity() string {
	if k.notify == nil {
		return ""
	}
	return strings.Join(slices.Concat(k.notify.Environ(), []string{k.invocation}, k.client.Environ()), " ")
}

// isOurs tells the names of what this program puts into a store, in this version.
func isOurs(name string) bool {
	return sock.IsStoreName(name) || isState(name) || vault.IsName(name)
}

// isStored tells names of a store from those of socket units, which are names of
// listeners or units: all that this program gives, in any version, have a "/".
func isStored(name string) bool { return strings.Contains(name, "/") }
