// Package vault keeps live connections for the next process of a service, whatever
// ends this one: a restart, a crash or kill -9. What a connection is, only its user
// knows: here it is 240 bytes of shared memory and one or two descriptors.
//
//	v, err := vault.New(vault.Options{Writers: loops})
//	err = v.Entrust(ctx, store) // an fdstore.Store: systemd's, or the keeper's
//	…
//	w := v.Writer(0) // one for each event loop
//	slot, memory, ok := w.Take()
//	…                               // describe the connection in memory
//	kept := w.Keep(slot, client, upstream)
//	…
//	w.Drop(slot)                    // then shut down and close
//
// And in the next process, with what came back from the store:
//
//	v, found, err := vault.Restore(vault.Options{Writers: loops}, held)
//	for _, k := range found.Kept {
//		… // k.Memory, k.FDs
//	}
//	err = v.Entrust(ctx, store) // what the store has already is not pushed again
//	err = v.Settle()
//
// # What is promised
//
//   - From the return of Keep until Drop the connection is found again, exactly once,
//     by a process that restores: at whichever instruction this one is killed, or one
//     that restores.
//   - What was dropped is not found again.
//   - Take, Keep and Drop wait for nobody, the service manager least of all. What there
//     is no room for is not kept, and Keep says so.
//
// # The one window
//
// A connection that was accepted and not yet kept dies with its process. Where accept4
// is followed by Keep, with no system call between, that is all there is. A user that
// makes the upstream socket before it accepts can keep both at once.
//
// # The mechanism
//
// A holder (PID 1, the keeper) compares whatever it is to keep with all that it has, so
// one descriptor for each connection would take it minutes. Instead it keeps:
//
//   - segments: SEQPACKET socket pairs. A connection is kept by one message, a record of
//     32 bytes with copies of its descriptors, that is sent into a pair and not received.
//     The holder has both ends, and so the queue.
//   - the table: a memfd that is mapped by whoever owns the vault. It has a slot for each
//     connection, and the user's notes, each with a counter, slabs and page.
//
// The table decides: a slot has a serial number that is never used again, and a record
// counts while its slot has the same one. Keep stores the serial and then sends; Drop
// stores 0. A record without its slot is dead. A slot without a record is freed when
// the vault is restored. That peeks only: it takes nothing out of a queue, so being
// killed there costs nothing.
//
// Room comes from taking out dead records, and who may do that is the living owner,
// which has a mirror of each queue in its memory. A dead record at the head is
// received without a buffer for descriptors, and the kernel closes them. A live one
// that is in the way is sent anew first and then received. A process that is killed
// between the two leaves it in the queues twice; the second copy is closed when the
// vault is restored, and closing a copy does nothing to a connection. No new segment
// has to be stored for that, the holder does not hear of it. Keep receives up
// to two dead records at the head of the segment that it sends to: where connections are
// short nothing else is needed. A goroutine sweeps a segment when half of it is dead, so a
// drop costs a constant, and each once in 20 s.
//
// Another goroutine adds segments before they are needed and gives up empty ones. From the
// return of Entrust on a segment is used only when the store has it. What is kept before may
// be in one that only this process has, also where the rest of the vault is another's.
//
// # One owner
//
// Who restores would touch connections that the owner goes on with, and take its records
// out of the queues. So the owner has a lock on the table (flock(2)), which the kernel
// takes from it at its end, however that comes, and a vault whose owner lives is not
// restored, whoever passes it. That takes /proc.
//
// # Versions
//
// The table and each record say in which format they are, and from which on a program
// can read them: the vault's, and the user's (Options). A table that cannot be read is
// an error, a record that cannot be read is one lost connection. What is lost is reset
// where it is TCP, so that no peer takes a part of a stream for the whole.
//
// # What ends whoever restores it
//
// What is in a vault must not keep a service down for ever. Nothing is copied to go on
// with it: a process adopts the slabs that its connections refer to, and so is at home in
// as much memory as the one before. And a vault that was restored 20 times in a row
// (Options.Attempts) and for two minutes, by processes that have all died before Settle, is
// given up: its connections are reset.
//
// # Limits
//
// Descriptors in queues count for the user against RLIMIT_NOFILE, see Options.InFlight.
// A segment has at most 1,000 records, about 555 with the kernel's limits as they are,
// and there are at most 4,096 segments.
//
// Unix sockets among the descriptors are safe from the kernel's garbage collector. But
// with more than 16,000 of them in flight, whoever passes descriptors waits for it. A
// user that relays Unix sockets keeps at most 12,000 of those, and before Linux 6.10,
// where it walks all of them at each turn, at most 1,000. The vault does not know what
// it keeps, and does not count them.
//
// A table takes addresses for 4 GiB and more, and memory for what is used of it. The
// store needs a place for the table, and two for 555 connections or less; growing ahead
// takes an eighth more, and two for each writer.
//
// On a host with two cores, with 6.18: Take, Keep and Drop together 2.6 µs, nearly all of
// it in sendmsg and recvfrom; 1 µs of the sweeper for a dead record, and 3 µs for a live
// one in the way; 3 µs a record to restore, 0.3 s for 100,000.
//
// # Facts
//
// From unix(7), socket(7), memfd_create(2), and net/unix/af_unix.c, net/unix/garbage.c,
// net/core/scm.c and mm/shmem.c of Linux 6.1 and 6.18:
//
//   - SO_SNDBUF counts 768 bytes for a record (skb truesize), against twice what was
//     asked for; wmem_max, 212,992, bounds that for the unprivileged.
//   - With SO_PEEK_OFF, MSG_PEEK goes on from message to message, and installs copies of
//     the descriptors each time. The kernel walks from the head to each (quadratic). A
//     buffer that is too short moves the offset by what has fitted.
//   - A process that can open no more descriptors gets fewer, and MSG_CTRUNC, no error.
//   - recv(2) without a control buffer closes the descriptors that came.
//   - In flight beyond RLIMIT_NOFILE: ETOOMANYREFS for each process of the user without
//     CAP_SYS_RESOURCE and CAP_SYS_ADMIN (too_many_unix_fds).
//   - A file that is sealed against shrinking cannot raise SIGBUS; holes can be punched.
package vault
