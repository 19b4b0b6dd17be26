package proxy

// Hold has nobody accepted until Unhold, whatever is put into service meanwhile: who comes
// waits in the kernel's queues. When it returns nobody is accepted any more.
func (e *Engine) Hold() {
	e.setHeld(true)
	e.relay.Hold()
}

// Unhold ends a Hold. It does nothing where there is none.
func (e *Engine) Unhold() {
	e.relay.Unhold()
	e.setHeld(false)
}

func (e *Engine) setHeld(held bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = held
}

// Reserve leaves so many descriptors free of new connections and what they take, for others
// that are to come; 0 = none.
func (e *Engine) Reserve(descriptors int) { e.relay.Reserve(descriptors) }
