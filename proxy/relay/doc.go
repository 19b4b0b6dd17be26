// Package relay moves bytes between accepted connections and their upstreams:
// one epoll loop per core, non-blocking system calls, no goroutine and no
// buffer for a connection that is idle.
//
// # One connection
//
// accept.go takes a client, header.go reads its PROXY header, dial.go finds a
// server that answers, pump.go moves bytes (splice.go does so in bulk), and
// end.go brings both sockets to the end that the peers gave them. The phases are
// drawn in pair.go.
//
// # Invariants
//
//   - A pair belongs to one loop, and only that loop's goroutine touches it.
//   - A direction has one mode at a time: what was taken from the source and not
//     yet given to the destination is either in its buffer or in its pipe. It
//     takes more only when it owes nothing, so a connection holds at most one
//     buffer or pipe each way whatever its peers do.
//   - Bytes never move inside a buffer; buffers are of one size, addressed by
//     index in mapped memory, and belong to a direction only while it owes.
//   - The upstream socket exists before the client is accepted, and connect
//     follows accept with nothing but bookkeeping between.
//   - A reset is told from an end. It is known by the first failing call on a
//     socket, which eats the error; from then on that side is broken, and an end
//     of file read from it later is none.
//   - A descriptor is taken out of epoll before it is closed, since a copy of it
//     may live on elsewhere and would go on reporting.
//   - What is closed was shut down or disconnected before, where its peer is to know:
//     with a copy in the vault, closing says nothing.
//
// # Connections that outlive the process
//
// With a [Vault] attached, keep.go leaves each client there by the system call after its
// accept, or after the one that asks whether it speaks Multipath TCP; a kill before that is
// the one that ends a connection, by the end of an empty stream where the client has sent
// nothing. slot.go is what the next process must know of it, written before it becomes true
// (position.go). What it owes is told by the kernel's counters (counters.go), and lies in a
// buffer of shared memory or in a pipe. [Relay.LetGo] leaves all of it to another process,
// as a death does; [Relay.Restore] goes on (restore.go), in the middle of a stream
// (resume.go) or with another dial (redial.go). Nobody is accepted before those who were
// there count ([Relay.Hold]).
//
// The relay never closes a listening socket: it borrows it from [Relay.Serve]
// until [Relay.Release] says that no loop touches it any more.
package relay
