// Package fdstore leaves descriptors with the service manager, so that the next
// process finds them: listening sockets with the clients in their queues, and what
// else must outlive a restart, a crash or kill -9. The manager is systemd, or
// whatever speaks its protocol (sd_notify(3), FDSTORE=1).
//
//	back := fdstore.Reconcile(held, known) // what came with LISTEN_FDS
//	store, err := fdstore.Open(ctx, notify, back, fdstore.Options{Max: max})
//	…
//	err = store.Push(ctx,
//		fdstore.Entry{Name: "socket/1f", FD: listener.Raw()},
//		fdstore.Entry{Name: "state/2", FD: memfd.Raw()})
//	…
//	err = store.Remove(ctx, "state/1")
//
// The package holds no descriptor of the caller's: it lends them to the manager,
// which makes its own. It neither reads LISTEN_FDS nor sends messages itself; the
// caller has a [Manager] for that. It never removes what it did not push or was not
// told about.
//
// # What is promised
//
//   - [Store.Push] is all or nothing, and a nil error means that the manager has
//     every descriptor. A push of systemd's own is neither: it has no answer.
//   - Nothing is pushed that the store has no room for.
//   - A process that is killed at any moment leaves nothing that the next one does
//     not know: entries arrive in the order of the call. So the last one of a call
//     says that all of it is there.
//
// One process at a time pushes. Where a second one does (NotifyAccess=all), a place
// that it frees between two messages may hide that a push was dropped.
//
// # How it is verified
//
// The manager drops what a full store cannot take, and closes it. That is no sign:
// systemd 257 closes in a helper process, up to 60 ms after it has answered
// BARRIER=1 on a busy host. What can be seen at once is that it polls what it keeps.
// So each push ends with a canary, a descriptor that shows whether it is polled. If
// it is kept, there was room for it after all the others, and they were kept too.
// If not, they are removed again. One place stays free for the canary, at any time.
// canary.go has the mechanism.
//
// # Facts
//
// All from sd_notify(3), systemd.service(5), and src/core/service.c of 252 and 257:
//
//   - FDNAME= is known since systemd 233, FDSTOREREMOVE=1 since 236, FDPOLL=0 and
//     BARRIER=1 since 246, $FDSTORE and FileDescriptorStorePreserve= since 254.
//   - FDSTOREREMOVE=1 removes all descriptors of a name, hence names are unique here.
//   - A second descriptor of a file that is in the store is dropped, whatever its
//     name is. Push refuses it as far as it can tell: not for eventfds, devices and
//     the like, which have no identity of their own.
//   - EPOLLHUP or EPOLLERR removes an entry, unless it was pushed with FDPOLL=0, as
//     all are here. A listening socket may have it, after shutdown(2).
//   - PID 1 compares what is pushed with all that is stored: 1,000 descriptors take it
//     half a second, and 2,000 beside another 2,000 take 3 to 6.
//   - The next process gets socket units' descriptors first, then the stored ones,
//     what was pushed last first. daemon-reexec turns their order around.
//   - LISTEN_FDNAMES is one string, and no process can be started with one of 128 KiB
//     or more (MAX_ARG_STRLEN). Push stops at 100 KiB; the rest is for socket units.
//   - A unit cannot be started with more descriptors than its LimitNOFILE= says, the
//     soft one, 1024 by default: it fails with 202/FDS for ever.
//   - A restart keeps the store, a stop drops it, unless FileDescriptorStorePreserve=
//     is yes. A start limit that is reached is a stop.
package fdstore
