// Package storetest is a service manager for tests of what uses a descriptor store.
//
//	manager := storetest.Start(t, 10)
//	store, err := fdstore.Open(ctx, manager.Notifier(), fdstore.Returned{}, fdstore.Options{Max: 10})
//	…
//	back := fdstore.Reconcile(manager.Pass(), known) // what the next process finds
//
// With messages it does what systemd does, line by line: manager_dispatch_notify_fd
// of src/core/manager.c, service_notify_message, service_add_fd_store_set and
// service_remove_fd_store of src/core/service.c, in 252 and 257. The descriptors are
// real, and so are the socket and the epoll instance that watches what is kept.
//
// In one thing it is worse: what it drops it closes at the end of the test, where
// systemd 252 closes at once and 257 a little later.
package storetest
