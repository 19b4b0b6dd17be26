package daemon

import (
	"github.com/holdfast-proxy/holdfast/proxy"
)

// withdraw ends what had begun, when the other process goes on with the sockets: it
// leaves them, and gives the clients that were accepted here their time.
func (d *daemon) withdraw(g *generation) {
	d.handsOn.Store(true)
	d.telling.hush() // the service goes on
	g.got.Retire()
	drain, over := d.drain(g.config.Global.DrainTimeout, nil)
	defer over()
	d.engine.Stop(drain, proxy.Ending{Leave: true})
	d.serving.Wait()
}
