// Package storetest is a service manager for tests of what uses a descriptor store.
//
//	manager := storetest.Start(t, 10)
//	store, err := fdstore.Open(ctx, manager.Notifier(), fdstore.Returned{}, fdstore.Options{Max: 10})
//	…
//	back := fdstore.Reconcile(manager.Pass(), known) // what the next process finds
//
// It is what the keeper is made of, without the process, and does with messages what
// systemd does; fdstore/internal/manager says from where. The descriptors are real,
// and so are the socket and the epoll instance that watches what is kept.
//
// In one thing it is worse: what it drops it closes at the end of the test, where
// systemd 252 closes at once and 257 a little later.
package storetest
