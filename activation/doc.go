// Package activation brings sockets to this process, from wherever they are: held
// by it already, passed by a systemd socket unit, kept in a store over a restart,
// given by the instance that this one replaces, or bound here when nobody has them.
//
// A program says which listeners it wants, and [Acquire] gives the sockets of
// each, or one error with everything that is wrong:
//
//	systemd := activation.FromSystemd(log) // once, early in main
//	store := systemd.Split(sock.IsStoreName, activation.Store)
//	got, err := activation.Acquire(wants, nil, []*activation.Source{systemd, store})
//
// A reload asks again, with the sockets that are held:
//
//	got, err = activation.Acquire(wants, held, nil)
//
// The package owns each descriptor until it hands it over in a [Result]. It
// never closes, shuts down or changes what it does not understand: foreign
// descriptors come back in the Result, each with a reason. It never accepts.
//
// A descriptor belongs to the [Source] it came from until an Acquire succeeds.
// One that fails closes what it has bound and leaves the sources as they were,
// so the next try finds the same sockets. A held socket is the caller's at all
// times.
//
// # Which socket goes to which listener
//
// Held sockets are matched first, then the sources in their order.
//
//  1. By name: FileDescriptorName= of the socket unit is the listener's name.
//     A listener gets all sockets of its name, IPv4, IPv6, Unix and abstract,
//     beside those that it binds itself. UDP sockets go to a listener that has a
//     UDP address. Sockets that this program bound have no listener's name, also
//     not in the store and in a handover: when a listener moves to another port, its
//     old socket does not follow.
//  2. By transport and bound address, whatever the descriptor's name is. Without
//     FileDescriptorName= systemd gives the name of the socket unit.
//  3. A listener that takes any gets the listening stream sockets of units that
//     are left.
//  4. An address of a listener that nobody has is bound.
//
// Two sockets at one address (SO_REUSEPORT) go to the same listener.
//
// A unit's socket serves an address if all its clients arrive there: one of [::]
// that takes IPv4 too serves 0.0.0.0 and every address. Our own sockets serve
// exactly what they were bound for, as who narrows an address in the config means
// it: 0.0.0.0, [::] (IPv6 alone) and every address are three sockets.
//
// The address does not count
//   - of a socket that is bound to an interface (SO_BINDTODEVICE) or is in another
//     network name space: only some clients of the address arrive there;
//   - of our own Unix socket whose path is gone or leads to another file, and of
//     one that was retired: no new client arrives. The address is bound anew, and
//     the old socket is to be drained.
//
// # A change of address
//
// The new socket is bound before the old one goes, although their addresses may
// overlap (0.0.0.0:80 and 127.0.0.1:80), if the old one is our own and no
// listener keeps it. The caller serves the new one, retires the old one
// (see [sock.Listener.Retire]), serves its queue and closes it: no client is
// refused. Two listeners of one config that overlap are an error.
//
// # No go-systemd
//
// Descriptors are read from the environment here and not with go-systemd's
// activation.Files, which believes any LISTEN_FDS. A huge value is a panic. One
// that is too large makes an *os.File of descriptors that belong to the Go
// runtime; its finalizer closes them, and the program dies of "netpoll failed".
// An *os.File of a non-blocking socket is also watched by the runtime's poller,
// which then wakes up for each client.
package activation
