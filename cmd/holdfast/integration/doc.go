// Package integration tests Holdfast as its users meet it: the built binary, by
// its command line and config, between real clients and real servers.
//
// TestOneHoldfastServes runs everything that any traffic may expect through one
// instance with many listeners, and again with every socket from systemd. The
// other tests need a config, a server or a limit of their own. Nothing here looks
// inside the binary.
package integration
