package fdstore

import (
	"slices"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// Held is a descriptor that came back from the store at start.
type Held struct {
	Name string
	FD   *sock.FD
}

// Returned is what came back, sorted.
type Returned struct {
	// Known is what the program can go on with. It is the caller's. A name may occur
	// twice, with two objects, if somebody else has pushed them.
	Known []Held

	// Foreign has names that the program does not know, of another version or
	// another program. They stay in the store. The caller closes its copies.
	Foreign []Held

	// Stale is of no use to anybody, and closed. Open removes it from the store,
	// unless its name is needed.
	Stale []Stale
}

// Stale is a descriptor that should not be in the store.
type Stale struct {
	Name   string
	Reason string // for people
}

// Reconcile sorts what came back at start, in any order; known tells the names that
// the program gives. It closes what is stale, and does not talk to the manager.
func Reconcile(held []Held, known func(name string) bool) Returned {
	var r Returned
	seen := map[object][]Held{}
	for _, h := range held {
		switch {
		case isCanary(h.Name):
			r.drop(h, "left by a process that was killed during a push")
		case !known(h.Name):
			r.Foreign = append(r.Foreign, h)
		default:
			o := identifyHeld(h)
			if i := slices.IndexFunc(seen[o], h.same); i >= 0 {
				r.drop(h, "the same file as "+seen[o][i].Name)
				continue
			}
			seen[o] = append(seen[o], h)
			r.Known = append(r.Known, h)
		}
	}
	return r
}

func (r *Returned) drop(h Held, reason string) {
	_ = h.FD.Close()
	r.Stale = append(r.Stale, Stale{Name: h.Name, Reason: reason})
}

func (r *Returned) empty() bool {
	return len(r.Known)+len(r.Foreign)+len(r.Stale) == 0
}

func (h Held) same(other Held) bool {
	return sameFile(h.FD.Raw(), other.FD.Raw())
}

// identifyHeld knows nothing of what the kernel does not tell.
func identifyHeld(h Held) object {
	o, err := identify(h.FD.Raw())
	if err != nil {
		return object{}
	}
	return o
}
