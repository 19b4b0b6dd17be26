package sock

import (
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// tracing is on in tests only; every FD then remembers where it was opened.
var (
	tracing atomic.Bool
	opened  sync.Map // *FD → stack as text
)

// TraceLeaks starts to record where each FD is opened, for tests. The function
// it gives back lists those that are open still, each as a stack trace.
func TraceLeaks() (leaked func() []string) {
	tracing.Store(true)
	return func() []string {
		var stacks []string
		opened.Range(func(_, stack any) bool {
			stacks = append(stacks, stack.(string))
			return true
		})
		return stacks
	}
}

func traceOpen(fd *FD) {
	if tracing.Load() {
		opened.Store(fd, string(debug.Stack()))
	}
}

func traceClosed(fd *FD) {
	if tracing.Load() {
		opened.Delete(fd)
	}
}
