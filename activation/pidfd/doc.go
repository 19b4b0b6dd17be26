// Package pidfd takes listening sockets out of another process, with the clients
// that wait in their queues: out of one that hangs or is stopped and could not hand
// them over, and out of any other program, which knows nothing of it.
//
//	p, err := pidfd.Open(pid)
//	…
//	defer p.Close()
//	found, err := p.ListeningSockets(ctx)
//	if rights, ok := errors.AsType[*pidfd.RightsError](err); ok {
//		fmt.Fprintln(os.Stderr, "hint:", rights.Hint())
//	}
//	… // serve them
//	err = p.Signal(unix.SIGTERM)
//	…
//	err = p.Wait(ctx)
//
// The other process does not take part and does not notice. Both have the socket
// then, each client goes to who accepts first, and when one of them ends, the other
// one has the queue, and nobody in it is refused.
//
// A [Process] is known by its pidfd, and what is taken or signalled goes by that. So
// it is the same process for ever, also when it has ended and another one has its
// PID. It is the whole process and not a thread of it. The table of descriptors is
// that of its main thread, which all threads share, but for the rare ones that were
// made without CLONE_FILES.
//
// # What changes for the other process
//
// Nothing, by this package. What it takes is the same open socket though, and not a
// copy of it. So take care what is done with it:
//
//   - O_NONBLOCK is the socket's. Servers with an event loop, such as nginx, HAProxy
//     and Go programs, have set it. For one that waits in accept(2) it changes the
//     program: the call that waits goes on waiting, the next one fails with EAGAIN,
//     on which some spin and some exit. [sock.Prepare] sets it, and [sock.Adopt] and
//     activation.Acquire call that. See [Found.Blocking] before: a socket of that
//     kind is for one who ends the other program right after, and has it stopped
//     until then (SIGSTOP).
//   - shutdown(2), [sock.Listener.Retire] and socket options act on the other
//     process, too.
//   - An epoll instance of the other process goes on reporting a socket that it has
//     closed, as long as a copy of the descriptor is open here. nginx and HAProxy take
//     it out of there first, others may spin until they end.
//
// Connections are looked at in passing: /proc does not tell them from listening
// sockets. Each is taken and closed again within some microseconds, in which the
// other process may close it, too: then it ends when the copy here is closed.
//
// Some programs remove the file of a Unix socket when they end in order, nginx does.
// The socket lives on, but new clients do not find it. A hard link to the file, made
// before, is another way to the same socket: rename it to the old path afterwards.
//
// # Rights
//
// Linux asks for the right to trace the process, PTRACE_MODE_ATTACH_REALCREDS of
// ptrace(2). CAP_SYS_PTRACE gives it, and root has that mostly. Without it all of
// this must hold:
//
//   - the same user and group, real, effective and saved;
//   - a process that may be dumped (PR_SET_DUMPABLE): it is not after a change of its
//     user, until the next exec;
//   - no capability in its permitted set that this process has not;
//   - the same user name space;
//   - kernel.yama.ptrace_scope is 0, or 1 and this process is an ancestor or was
//     allowed: see [Allow]. Scope 2 is for CAP_SYS_PTRACE alone, scope 3 for nobody.
//
// A security module may refuse beside that, and a system call filter may have
// pidfd_getfd removed: Docker's default one does without CAP_SYS_PTRACE, and
// SystemCallFilter=@system-service of systemd.
//
// A [RightsError] says what it was, as far as /proc shows.
//
// # Facts
//
// pidfd_open(2) and pidfd_send_signal(2) are in Linux 5.3 and 5.1, pidfd_getfd(2) in
// 5.6, SO_PEERPIDFD in 6.5. pidfd_getfd looks at the rights before it looks at the
// number. It works on a stopped process. For one that is ending it says EBADF, and
// ESRCH since 6.8. It waits while the process is in execve(2).
package pidfd
