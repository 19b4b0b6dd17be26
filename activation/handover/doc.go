// Package handover lets a new process take over from a running one while both are
// alive: it gets the listening sockets, makes itself ready, and only then does the
// old one stop accepting. No client is refused, and no process is in charge of the
// other. docs/handover.md has the protocol for other implementations.
//
// The running process is the original and waits at a Unix socket:
//
//	l, err := handover.Listen("/run/holdfast/handover.sock")
//	…
//	err = handover.Serve(ctx, l, instance, handover.Options{Version: version}, log)
//
// The new one is its replacement and drives:
//
//	s, err := handover.Dial("/run/holdfast/handover.sock")
//	if errors.Is(err, handover.ErrNobody) {
//		… // nobody to take over from
//	}
//	defer s.Close()
//	err = s.Hello(ctx, version)
//	got, err := s.SendListeningSockets(ctx)
//	… // adopt them, accept
//	err = s.BeginDrainingConnections(ctx, 30*time.Second) // the original accepts no more
//	… // serve for a moment
//	next, err := s.ShutdownOriginalNode(ctx) // next is the handover socket itself
//
// # What is promised
//
//   - The original goes on as if nothing had been when its replacement dies, stalls,
//     aborts, or says what it should not, at any step up to the last answer, also when
//     it had begun to serve alone. The next replacement finds everything as the first
//     one did.
//   - Only processes of the same user and of root are answered, and only those are
//     asked.
//   - Descriptors that come unasked are closed. What a peer sends is bounded in size,
//     number and time.
//
// The package owns the handover socket and its file, and its copies of descriptors
// on their way. It never accepts on a listening socket, never closes one of the
// original's, and does not know what they are for.
//
// original.go and replacement.go are mirror images: each request of the one is
// answered in the other.
package handover
