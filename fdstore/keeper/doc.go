// Package keeper runs a service where there is no service manager: in a container, as
// its PID 1, and under other inits. It keeps the service's descriptors, so that the
// next process finds them, and speaks systemd's own contract to it. A service that
// works under systemd works here as it is.
//
//	code, err := keeper.Run(keeper.Options{
//		Command:     []string{"holdfast", "serve"},
//		Step:        []string{"step"}, // the argument by which main calls keeper.Exec
//		StoreMax:    4096,
//		StopTimeout: 90 * time.Second,
//		Log:         log,
//	})
//
// It is `holdfast keep`. The package neither opens listening sockets nor looks into
// what it keeps.
//
// # What the service gets
//
//   - NOTIFY_SOCKET, to which it sends messages as sd_notify(3) describes them.
//   - Descriptors 0, 1, 2 of the keeper, and from 3 on those that are kept for it, with
//     LISTEN_FDS, LISTEN_PID and LISTEN_FDNAMES as sd_listen_fds(3) reads them. Nothing
//     else is open.
//   - FDSTORE, how many descriptors may be stored, if any.
//   - WATCHDOG_USEC and WATCHDOG_PID, if it is watched.
//   - KEEPER_SOCKET and KEEPER_ID, by which it learns more; see below.
//   - A session of its own, without a controlling terminal.
//
// The sockets are in the abstract name space, unless [Options].Dir is set, and so a
// service in another network name space than its keeper does not reach them.
//
// # Which messages it understands
//
// FDSTORE, FDNAME, FDPOLL, FDSTOREREMOVE and BARRIER do what they do in systemd, see
// fdstore/internal/manager. What is kept with polling is watched by an epoll instance
// of the keeper from before a later BARRIER is answered, as package fdstore wants it.
//
// READY, RELOADING, STATUS are noted in the log. WATCHDOG=1 is a sign of life: the watch
// begins with it or with READY, and who says nothing for too long gets SIGABRT, and
// SIGKILL after StopTimeout. WATCHDOG=trigger and WATCHDOG_USEC are understood.
//
// STOPPING begins an end that may take StopTimeout, EXTEND_TIMEOUT_USEC puts off
// whatever time runs.
//
// MAINPID makes another process the main one, as after an upgrade: one that may send
// messages, or, if the main process says it, one of its users that was started with this
// NOTIFY_SOCKET.
// Nothing happens when the one before ends.
//
// A message counts if its sender is the main process, descends from it or from the
// keeper; all orphans of the service do. The kernel says who it was (SCM_CREDENTIALS).
// What is said about the state counts from the main process and its descendants, and
// STOPPING from the main process alone: one that drains is not the service. A sender
// that has ended and was waited for is nobody: a script is to use systemd-notify, which
// waits for BARRIER. Descriptors that came with a message that does not count are closed.
//
// # Life
//
// When the main process has ended, what is left in its process group is killed, and
// the command is started again: at once after 10 s of life, else after 100 ms, and twice
// that each time up to 1 s. What is stored stays, until the keeper ends.
//
// A stop ends when the former main processes have ended, too. They get StopTimeout after
// the end of the main one, and are killed then.
//
// TERM, INT and QUIT to the keeper are a stop, and are passed on, a second one to the
// former main processes as well. HUP, USR1, USR2 and
// WINCH are passed on and mean what the service takes them for. Orphans are waited for.
//
// # Stop or restart
//
// To a service both are one signal. [Client.Job] tells which: a stop only if the
// keeper was asked to, or would not start the command again. Whoever signals the
// service itself has it restarted.
//
// # When the keeper is killed
//
// The service runs on. With [Options].Dir the next keeper with the same directory
// takes it on: it does not start another one, and has the same addresses. It has
// nothing stored then, and a service that uses [Client.Follow] is told to push again, and
// knows by [Client.Answers] that nobody has what is kept until it has; of any other one
// nothing is kept until it pushes or is started again. It is not the parent of what
// it has taken on ([Client.IsParent]): a process that is to take over from that one counts
// only as its child.
//
// That only one process at a time may die is the limit of this: what neither the
// service nor a keeper has is gone.
//
// Before it has noted in the directory which process it starts, the keeper does not let
// that process become the command. So there is no moment at which it could leave one
// that the next keeper does not find.
//
// Where the keeper is PID 1, the kernel ends everything with it.
package keeper
