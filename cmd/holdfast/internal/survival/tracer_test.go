package survival

import (
	"encoding/binary"
	"errors"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tracer stops all threads of a child at each of their system calls, and kills it where
// it is told. It belongs to one thread of the kernel, which is the child's parent.
type tracer struct {
	life    *life
	threads map[int]*thread
	counted map[int64]bool // descriptors of Unix sockets whose counter this child has set
	target  boundary
	left    int // how often the target is still to be passed
	giveUp  time.Time
	hits    map[boundary]int // that were met at all
	last    []step           // a ring
	next    int

	restored bool // it has said that it is
}

// thread is one of the child.
type thread struct {
	call   string // that it is in; "" = none, or none of interest
	last   string // before that
	window bool   // between the call of accept4 and the return of the sendmsg after it
}

// traced starts a child, and kills it at a boundary when it has passed that so often, or
// somewhere after a time. met counts all boundaries that are passed. change may be nil.
func (h *house) traced(change func(*settings), target boundary, passes int, within time.Duration, met map[boundary]int) (hit bool) {
	h.t.Helper()
	held := h.held()
	done := make(chan struct{})
	started := make(chan *life, 1)
	go func() { // ends with the child
		defer close(done)
		runtime.LockOSThread() // and never unlocked: who traces does nothing else
		l := h.spawn(change, &syscall.SysProcAttr{Ptrace: true}, held)
		started <- l
		tr := &tracer{life: l, threads: map[int]*thread{}, counted: map[int64]bool{}, target: target, left: passes, giveUp: time.Now().Add(within), hits: met, last: make([]step, 60)}
		window := 0
		hit, window = tr.run()
		h.windows.Add(int64(window))
	}()
	select {
	case <-done:
	case <-time.After(patience):
		l := <-started
		h.t.Errorf("a traced child stands still:\n%s", l.logged())
		_ = unix.Kill(l.pid, unix.SIGKILL)
		<-done
	}
	return hit
}

// run follows the child to its end. window is how many clients may be hit in the window.
func (t *tracer) run() (hit bool, window int) {
	const options = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_EXITKILL
	var killed bool
	set := false
	for {
		var status unix.WaitStatus
		tid, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			t.life.house.t.Errorf("wait for a traced child: %v", err)
			return hit, window
		case tid == t.life.pid && (status.Exited() || status.Signaled()):
			t.life.house.mu.Lock()
			t.life.calls = t.text()
			t.life.house.mu.Unlock()
			t.life.ended("killed "+t.target.String(), status)
			return hit, window
		case !status.Stopped():
			delete(t.threads, tid)
			continue
		}
		if !set {
			set = true
			_ = unix.PtraceSetOptions(tid, options)
		}
		signal := 0
		switch {
		case status.StopSignal() == unix.SIGTRAP|0x80:
			if !killed && t.atCall(tid) {
				hit, killed = true, true
			}
		case status.StopSignal() == unix.SIGTRAP || status.StopSignal() == unix.SIGSTOP: // exec, clone, a new thread
		default:
			signal = int(status.StopSignal())
		}
		if !killed && time.Now().After(t.giveUp) {
			killed = true
		}
		if killed {
			window = max(window, t.inWindow())
			_ = unix.Kill(t.life.pid, unix.SIGKILL)
		}
		_ = unix.PtraceSyscall(tid, signal)
	}
}

// atCall notes a stop, and tells whether it is the one to be killed at.
func (t *tracer) atCall(tid int) bool {
	var info callInfo
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 {
		return false // it is being killed
	}
	if info.op == atEntry && info.nr == unix.SYS_WRITE && info.arguments[0] == reportFD {
		t.restored = true
	}
	th := t.threads[tid]
	if th == nil {
		th = &thread{}
		t.threads[tid] = th
	}
	s := step{thread: tid, boundary: boundary{restored: t.restored}}
	switch info.op {
	case atEntry:
		th.call = callName(&info, th.last, t.counted[int64(info.arguments[0])], func(at uint64) uint64 {
			var b [8]byte
			_, _ = unix.PtracePeekData(tid, uintptr(at), b[:]) // zero if it is being killed
			return binary.NativeEndian.Uint64(b[:])
		})
		s.call, s.fd = th.call, int64(info.arguments[0])
		switch s.call {
		case setsCounter:
			t.counted[s.fd] = true
		case "close":
			delete(t.counted, s.fd)
		}
	case atExit:
		s.call, s.after, s.result = th.call, true, info.returned()
		th.call = ""
	}
	if s.call == "" {
		return false
	}
	th.last = s.call
	th.note(s)
	t.last[t.next%len(t.last)] = s
	t.next++
	t.hits[s.boundary]++
	if s.boundary != t.target || s.call == "accept4" && s.after && s.result < 0 {
		return false
	}
	t.left--
	return t.left < 0
}

// note follows the window.
func (th *thread) note(s step) {
	switch {
	case s.call == "accept4":
		th.window = !s.after || s.result >= 0
	case s.call == "sendmsg of a client" && s.after, s.call == "connect" || s.call == "epoll_wait":
		th.window = false
	}
}

// inWindow is how many threads are in the window.
func (t *tracer) inWindow() int {
	n := 0
	for _, th := range t.threads {
		if th.window {
			n++
		}
	}
	return n
}

// text is the last calls.
func (t *tracer) text() []string {
	lines := []string{""}
	for i := range t.last {
		if s := t.last[(t.next+i)%len(t.last)]; s.call != "" {
			lines = append(lines, s.String())
		}
	}
	return lines
}
