// Package survival proves, by its tests, that live connections outlive the process that
// relays them. There is nothing else in it.
//
// The child is this test binary again: a relay with a real vault, entrusted to a store.
// The parent has what outlives it: the listening sockets, the store, and both peers of
// every connection. The peers send bytes that can be told from all others, half-close,
// reset, stall and send urgent data, while the child is killed and started anew. Each
// connection has to end byte for byte as it was planned, and as its peers have ended it.
//
// # The one window
//
// Between the return of accept4 and the return of the sendmsg that keeps the client, a
// kill ends that client. Such a connection has given nobody a byte, and no server has
// heard of it. No other loss is forgiven. Where the child is killed at a system call it
// is known which of its threads were in the window.
//
// # Kills
//
//   - at random moments, also while the child starts and restores
//   - by ptrace(2) before and after each kind of system call that the relay and its vault
//     make, while the child starts and while it serves; one kind that was never hit is a
//     failure
//   - where the counter of a Unix socket is set anew, and while idle connections are ended
//   - between two processes of which one has let the connections go, and while it does
//   - with no room for more, with ends of segments that are missing, and with slots that
//     are garbage
//
// # What is not promised
//
// Clients that speak Multipath TCP are only counted: they are not kept. A Unix socket has
// no reset of its own; its peer sees the end of the stream, and has all that was sent.
//
// # Longer runs
//
// As it is a run takes about a minute and has some 500 kills.
//
//	HOLDFAST_SURVIVAL_KILLS=1000   kills of each test
//	HOLDFAST_SURVIVAL_SEED=1       the seed of the plans; it is printed by a failure
//
// A failure tells the plan of the connection, what both ends have seen, and how the last
// children ended; where those were traced, with their last system calls.
package survival
