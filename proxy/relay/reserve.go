package relay

// Reserve leaves so many descriptors alone from now on, beside those that are never for
// connections: they are needed for others that are to come. 0 = none. Who cannot be accepted
// then waits in the kernel's queue.
func (r *Relay) Reserve(descriptors int) { r.reserved.Store(int64(descriptors)) }

// ceiling is the number from which on descriptors are not for connections.
func (r *Relay) ceiling() int { return r.descriptors - int(r.reserved.Load()) }
