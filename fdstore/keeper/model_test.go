package keeper_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/holdfast-proxy/holdfast/fdstore/keeper"
)

// model is a service that keeps descriptors by package fdstore and is killed at any
// moment, beside what must be there.
type model struct {
	h      *house
	s      *service
	places int
	kept   []string // sorted
	serial int
}

func TestTheKeeperHasWhatItsServiceBelieves(t *testing.T) {
	t.Parallel()
	m := &model{places: 6}
	m.h = newHouse(t, keeper.Options{StoreMax: m.places, StopTimeout: patience})
	m.h.pause = "1ms"
	m.h.start()
	steps := map[string]func(*rapid.T){"push": m.push, "remove": m.remove, "kill": m.kill, "kill while": m.killWhile}
	rapid.Check(t, func(rt *rapid.T) {
		m.start(rt)
		m.s.do(request{Do: "remove", Names: m.s.do(request{Do: "names"}).Names})
		m.kept = []string{}
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			steps[rapid.SampledFrom(slices.Sorted(maps.Keys(steps))).Draw(rt, "step")](rt)
			require.ElementsMatch(rt, m.kept, m.s.do(request{Do: "names"}).Names)
		}
		m.s.kill(unix.SIGKILL)
	})
	m.h.next()
	m.h.stop()
}

// start takes the next process, which finds what is stored.
func (m *model) start(rt *rapid.T) {
	m.s = m.h.next()
	for _, name := range m.s.Names {
		if strings.HasPrefix(name, "entry/") {
			continue
		}
		require.True(rt, strings.HasPrefix(name, "canary/"), name)
	}
	m.s.do(request{Do: "open", Count: m.places})
}

func (m *model) names(rt *rapid.T) (names []string) {
	for range rapid.IntRange(1, 4).Draw(rt, "entries") {
		m.serial++
		names = append(names, fmt.Sprintf("entry/%06d", m.serial))
	}
	return names
}

func (m *model) push(rt *rapid.T) {
	names := m.names(rt)
	a, err := m.s.try(request{Do: "keep", Names: names})
	require.NoError(rt, err)
	if len(m.kept)+len(names)+1 > m.places {
		require.Contains(rt, a.Error, "no room in the descriptor store")
		return
	}
	require.Empty(rt, a.Error)
	m.kept = slices.Concat(m.kept, names)
}

func (m *model) remove(rt *rapid.T) {
	gone := m.some(rt)
	m.s.do(request{Do: "remove", Names: gone})
	m.kept = without(m.kept, gone)
}

func (m *model) some(rt *rapid.T) []string {
	return slices.DeleteFunc(slices.Clone(m.kept), func(name string) bool { return rapid.Bool().Draw(rt, "not "+name) })
}

func (m *model) kill(rt *rapid.T) {
	m.s.kill(unix.SIGKILL)
	m.start(rt)
}

// killWhile kills it while it pushes or removes. What was wanted arrives in its order,
// and what was not is untouched.
func (m *model) killWhile(rt *rapid.T) {
	before, wanted, given := m.kept, []string(nil), []string(nil)
	r := request{Do: "keep"}
	if rapid.Bool().Draw(rt, "while it pushes") {
		wanted = m.names(rt)
		r.Names = wanted
	} else {
		given = m.some(rt)
		r = request{Do: "remove", Names: given}
	}
	require.NoError(rt, m.s.out.Encode(r))
	for range rapid.IntRange(0, 30).Draw(rt, "moment") {
		_ = parentOf(m.s.PID) // some time
	}
	m.kill(rt)
	m.kept = m.s.do(request{Do: "names"}).Names
	arrived, gone := without(m.kept, before), without(before, m.kept)
	require.Equal(rt, append([]string{}, wanted[:min(len(arrived), len(wanted))]...), arrived, "in the order of the call")
	require.Equal(rt, append([]string{}, given[:min(len(gone), len(given))]...), gone, "in the order of the call")
}

func without(all, some []string) []string {
	left := []string{}
	for _, name := range all {
		if !slices.Contains(some, name) {
			left = append(left, name)
		}
	}
	return left
}
