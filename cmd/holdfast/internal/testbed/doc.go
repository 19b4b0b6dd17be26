// Package testbed runs real programs for the integration tests and the
// benchmarks: Holdfast itself as a black box, and the servers, proxies and
// clients around it.
//
// Everything a test starts lives in a directory of its own, listens on loopback
// or on Unix sockets there, and is ended by its process id when the test is
// over. A program that is not installed fails the test, with the command that
// installs it: nothing is skipped.
package testbed
