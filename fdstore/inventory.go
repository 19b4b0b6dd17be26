package fdstore

import (
	"fmt"
	"maps"
)

// maxNameBytes is how much of LISTEN_FDNAMES the store may fill, with a colon after
// each name. The kernel's limit is 128 KiB for the whole string, and the names of
// socket units' descriptors are in it too.
const maxNameBytes = 100 << 10

// inventory is what is in the store. One that others can see never changes.
type inventory struct {
	names     map[string]int    // descriptors by name; more than one only if others pushed them
	objects   map[object]string // the name of each object whose identity is known
	count     int               // descriptors
	nameBytes int
}

func newInventory() *inventory {
	return &inventory{names: map[string]int{}, objects: map[object]string{}}
}

func (v *inventory) clone() *inventory {
	c := *v
	c.names, c.objects = maps.Clone(v.names), maps.Clone(v.objects)
	return &c
}

func (v *inventory) add(name string, o object) {
	v.names[name]++
	v.count++
	v.nameBytes += len(name) + len(":")
	if o != (object{}) {
		v.objects[o] = name
	}
}

// with is the inventory after a push, if there is nothing against it.
func (v *inventory) with(entries []Entry) (*inventory, error) {
	c := v.clone()
	for _, e := range entries {
		if err := checkName(e.Name); err != nil {
			return nil, err
		}
		if c.names[e.Name] > 0 {
			return nil, fmt.Errorf("%s is in the descriptor store already", e.Name)
		}
		o, err := identify(e.FD)
		if err != nil {
			return nil, fmt.Errorf("%s cannot be kept: %w", e.Name, err)
		}
		if other, ok := c.objects[o]; ok {
			return nil, fmt.Errorf("%s is the same file as %s, and the descriptor store keeps it once", e.Name, other)
		}
		c.add(e.Name, o)
	}
	return c, nil
}

// without is the inventory after all descriptors of these names were removed.
func (v *inventory) without(names []string) *inventory {
	c := v.clone()
	for _, name := range names {
		c.count -= c.names[name]
		c.nameBytes -= c.names[name] * (len(name) + len(":"))
		delete(c.names, name)
	}
	maps.DeleteFunc(c.objects, func(_ object, name string) bool { return c.names[name] == 0 })
	return c
}
