// Package proxy turns a configuration and listening sockets into traffic: it owns
// the pools of upstreams, the relay that moves the bytes, and what status tells.
//
// How the sockets came to this process is not its business: they are handed to
// it, each with a way to close it. It imports nothing of activation, the
// descriptor store or systemd.
//
//	engine, err := proxy.New(proxy.Options{Version: "1.0", Descriptors: 20000, Log: log})
//	…
//	engine.Start(ctx, cfg, sockets)
//	…
//	engine.Stop(ctx) // until ctx ends, connections may finish
package proxy
