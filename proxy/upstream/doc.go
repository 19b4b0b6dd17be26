// Package upstream knows the servers behind a proxy: which socket addresses
// they have now, which of them answer, and which one the next connection
// should be given to.
//
// A [Pool] serves one upstream of the configuration. It owns the look-up of
// server names, the health checks and the balancing. It never holds a proxied
// connection: the caller asks [Pool.Pick] for an [Endpoint], connects to it
// and says how that went. Fail over is the caller's loop, Pick with the same
// [Tried] until it gives nil.
//
//	pool := upstream.New(cfg, log, nil)
//	go pool.Run(ctx)
//
//	var tried upstream.Tried
//	for e := pool.Pick(client, &tried, now); e != nil; e = pool.Pick(client, &tried, now) {
//		e.Opened()
//		if err := connect(e.Sockaddr()); err != nil {
//			e.Failed(err, now)
//			e.Closed()
//			continue
//		}
//		e.Succeeded()
//		…
//		e.Closed()
//	}
//
// When the configuration changes, [Pool.Next] makes the pool of the next
// generation, which goes on with what is known of the servers that stay. A client
// that was accepted before keeps to its old pool until it has reached a server;
// the counters are the same ones.
//
//	next := pool.Next(changed)
//	go next.Run(…)
//	<-next.Resolved() // waits for names that are new
//	…                 // new clients are given to next
//	cancel()          // the Run of pool
//
// What is down the next process is to know, too: [Pool.Down] tells it, and [New] takes it.
//
// What is called for each connection (Pick, Family, Opened, Closed, Succeeded)
// may be called from any number of threads. It neither allocates nor blocks: it
// reads an immutable list of endpoints and their atomic counters. It takes no
// lock either, but for Pick on a pool without any address, which asks for a
// look-up over channels. Time there is the caller's monotonic clock in
// nanoseconds.
package upstream
