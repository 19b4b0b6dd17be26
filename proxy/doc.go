// Package proxy turns a configuration and listening sockets into traffic: it owns
// the pools of upstreams, the relay that moves the bytes, and what status tells.
//
// How the sockets came to this process is not its business: they are handed to
// it, each with a way to close it. It imports nothing of activation, the
// descriptor store or systemd.
//
//	engine, err := proxy.New(proxy.Options{Version: "1.0", Descriptors: 20000, Log: log})
//	…
//	changes, err := engine.Apply(ctx, proxy.Plan{Generation: 1, Config: cfg, Sockets: sockets})
//	…
//	engine.Stop(ctx, proxy.Ending{}) // until ctx ends, connections may finish
//
// # Generations
//
// Each Apply puts one configuration into service, as a generation. A connection is of
// the generation that accepted it, to its end. apply.go compares the sockets of two
// generations, pool.go their upstreams; drain.go is how a socket goes that nobody wants
// any more, and stop.go how all go.
//
// restore.go goes on with what another process has left; downnotes.go tells the next one
// which servers are down, and drainnotes.go until when what drains may go on.
package proxy
