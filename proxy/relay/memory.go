package relay

import "math"

// memory is what a loop moves bytes with. There are two: the next process reads what
// is owed from one of them, and this process goes on using the other one after it has
// let the kept connections go.
type memory struct {
	buffers bufferPool
	pipes   [pipeKinds]pipePool
}

// speedShare is the share of the descriptors, 1/n, that go into pipes for speed alone.
const speedShare = 16

func newMemory(r *Relay) memory {
	most := r.pipesPerLoop()
	return memory{pipes: [pipeKinds]pipePool{
		wide: {kind: wide, most: most, fast: min(most, r.descriptors/speedShare/r.options.Loops), ceiling: r.ceiling},
		slim: {kind: slim, most: math.MaxInt, ceiling: r.ceiling},
	}}
}

func newSharedMemory(r *Relay, v Vault) memory {
	m := newMemory(r)
	m.buffers.vault = v
	for kind := range m.pipes {
		m.pipes[kind].vault = v
	}
	return m
}

// memoryOf is what the bytes of a pair are moved with.
func (l *loop) memoryOf(p *pair) *memory {
	if p.kept != nil {
		return &l.shared
	}
	return &l.own
}

// trimmable tells whether trim has something to do.
func (m *memory) trimmable() bool {
	return m.buffers.warm() || m.pipes[wide].idle() || m.pipes[slim].idle()
}

func (m *memory) trim() {
	m.buffers.trim()
	for kind := range m.pipes {
		m.pipes[kind].trim()
	}
}

func (m *memory) close() {
	for kind := range m.pipes {
		m.pipes[kind].close()
	}
	m.buffers.close()
}
