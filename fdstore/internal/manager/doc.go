// Package manager is the service manager's side of sd_notify(3): the socket where
// the messages of services arrive, and the store that keeps their descriptors.
//
//	socket, err := manager.Listen("@notify")
//	store := manager.NewStore(manager.Options{Max: 10, Epoll: epoll})
//	…
//	message, err := socket.Receive() // when epoll says so
//	store.Apply(message)
//
// It does what systemd does, message by message: manager_dispatch_notify_fd of
// src/core/manager.c, service_notify_message, service_add_fd_store_set and
// service_remove_fd_store of src/core/service.c, in 252 and 257. In one thing it is
// kinder: it refuses a descriptor whose name would make LISTEN_FDNAMES too long to
// start the next process.
//
// The package starts no goroutine and takes no lock. The keeper and the manager for
// tests have a loop around it.
package manager
