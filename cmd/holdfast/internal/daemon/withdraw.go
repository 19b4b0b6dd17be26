package daemon

import (
	"github.com/holdfast-proxy/holdfast/proxy"
)

// withdrawnError is why a replacement does not take over, told when it has accepted
// clients already: they are to have their time, by drain.
type withdrawnError struct {
	error
	d *daemon
}

func (e *withdrawnError) Unwrap() error { return e.error }

// withdraw leaves the service to the process from which this one was about to take over:
// nobody is accepted here any more, and nothing answers.
func (d *daemon) withdraw(t *takeover, why error) error {
	d.handsOn.Store(true)
	d.telling.hush()  // the service goes on
	close(d.stopping) // who has asked for something on trial hears so
	d.engine.Pause()
	d.closeAsks()
	t.giveUp()
	d.current.got.Retire()
	return &withdrawnError{why, d}
}

// drain ends the clients that were accepted: over drain_timeout, or at a stop signal,
// beside the one that may have been the reason.
func (e *withdrawnError) drain(signals <-chan string) {
	d := e.d
	if d.until.Err() != nil {
		<-signals
	}
	active, _ := d.engine.Connections()
	d.log.Info("not taking over: leaving the service to the running instance", "connections", active)
	drain, over := d.drain(d.current.config.Global.DrainTimeout, signals)
	defer over()
	d.engine.Stop(drain, proxy.Ending{Leave: true})
	d.serving.Wait()
}
