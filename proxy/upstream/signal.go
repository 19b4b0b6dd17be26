package upstream

// signal wakes one goroutine. Signals that come before it looks are one. A signal
// that nobody waits for is harmless, and the nil signal is for nobody.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

// signal never blocks. While one is pending it costs a load.
func (s signal) signal() {
	select {
	case s <- struct{}{}:
	default:
	}
}
