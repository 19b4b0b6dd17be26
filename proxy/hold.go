package proxy

// Hold has nobody accepted until Unhold, whatever is put into service meanwhile: who comes
// waits in the kernel's queues. When it returns nobody is accepted any more.
func (e *Engine) Hold() {
	e.setHeld(true)
	e.relay.Hold()
}

// Unhold ends a Hold and an Expect. It does nothing where there is none.
func (e *Engine) Unhold() {
	e.expectNobody()
	e.relay.Unhold()
	e.setHeld(false)
}

func (e *Engine) setHeld(held bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = held
}

// Expect has so many connections of each listener count under its limit, although another
// process has them still, until Unhold. It is called before the first Apply.
func (e *Engine) Expect(connections map[string]int64) {
	e.changing.Lock()
	defer e.changing.Unlock()
	e.expected = connections
}

func (e *Engine) expectNobody() {
	e.changing.Lock()
	defer e.changing.Unlock()
	for listener, connections := range e.expected {
		if limit := e.limits[listener]; limit != nil {
			e.relay.Leave(limit, connections)
		}
	}
	e.expected = nil
}

// Reserve leaves so many descriptors free of new connections and what they take, for others
// that are to come; 0 = none.
func (e *Engine) Reserve(descriptors int) { e.relay.Reserve(descriptors) }
