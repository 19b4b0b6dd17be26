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
//
// The relay never closes a listening socket: it borrows it from [Relay.Serve]
// until [Relay.Release] says that no loop touches it any more.
package relay
