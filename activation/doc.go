// Package activation brings listening sockets to this process, from wherever
// they are: passed by a systemd socket unit, or bound here when nobody has them.
//
// A program says which listeners it wants, and [Acquire] gives the sockets of
// each, or one error with everything that is wrong:
//
//	systemd := activation.FromSystemd(log) // once, early in main
//	got, err := activation.Acquire(wants, []*activation.Source{systemd})
//
// The package owns each descriptor until it hands it over in a [Result]. It
// never closes, shuts down or changes what it does not understand: foreign
// descriptors come back in the Result, each with a reason. It never accepts.
//
// A descriptor belongs to the [Source] it came from until an Acquire succeeds.
// One that fails closes what it has bound and leaves the sources as they were,
// so the next try finds the same sockets.
//
// # Which socket goes to which listener
//
//  1. By name: FileDescriptorName= of the socket unit is the listener's name.
//     A listener gets all sockets of its name, IPv4, IPv6, Unix and abstract,
//     beside those that it binds itself.
//  2. By transport and bound address, whatever the descriptor's name is. Without
//     FileDescriptorName= systemd gives the name of the socket unit.
//  3. A listener that takes any gets the listening stream sockets that are left.
//  4. An address of a listener that no source has is bound.
//
// Descriptors are read from the environment here and not with go-systemd's
// activation.Files, which believes any LISTEN_FDS. A huge value is a panic. One
// that is too large makes an *os.File of descriptors that belong to the Go
// runtime; its finalizer closes them, and the program dies of "netpoll failed".
// An *os.File of a non-blocking socket is also watched by the runtime's poller,
// which then wakes up for each client.
package activation
