package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// keptPaths are paths of Unix sockets that another program may remove, as nginx does as
// soon as it is told to stop. A hard link is a second way to the same socket. The zero
// value keeps none.
type keptPaths map[string]keptPath

// keptPath is the link, and which file it leads to: somebody else may have put his own
// under either name since.
type keptPath struct {
	link string
	file os.FileInfo
}

// linkSuffix is what the links are called behind the path, and in front of the number of
// the process: its successor has links of its own before it has removed its.
const linkSuffix = ".holdfast-"

// keep makes the link.
func (k *keptPaths) keep(path string) error {
	if _, kept := (*k)[path]; kept {
		return nil
	}
	removeStaleLinks(path)
	link := path + linkSuffix + strconv.Itoa(os.Getpid())
	if err := os.Link(path, link); err != nil {
		return err
	}
	file, err := os.Lstat(link)
	if err != nil {
		return err
	}
	if *k == nil {
		*k = keptPaths{}
	}
	(*k)[path] = keptPath{link, file}
	return nil
}

// removeStaleLinks removes the links of processes that were killed.
func removeStaleLinks(path string) {
	there, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return
	}
	for _, entry := range there {
		number, ours := strings.CutPrefix(entry.Name(), filepath.Base(path)+linkSuffix)
		pid, err := strconv.Atoi(number)
		if !ours || err != nil || pid <= 0 {
			continue
		}
		if pid == os.Getpid() || errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			_ = os.Remove(filepath.Join(filepath.Dir(path), entry.Name()))
		}
	}
}

// there tells whether the link is what it was.
func (p keptPath) there() bool {
	now, err := os.Lstat(p.link)
	return err == nil && os.SameFile(now, p.file)
}

// restore makes a path that is gone anew.
func (k keptPaths) restore() (restored []string) {
	for path, kept := range k {
		if kept.there() && os.Link(kept.link, path) == nil {
			restored = append(restored, path)
		}
	}
	return restored
}

// forget lets a path go.
func (k keptPaths) forget(path string) {
	kept, there := k[path]
	if !there {
		return
	}
	if kept.there() {
		_ = os.Remove(kept.link)
	}
	delete(k, path)
}

// drop removes the links.
func (k keptPaths) drop() {
	for path := range k {
		k.forget(path)
	}
}

// keepPath keeps the path of a Unix socket.
func (a *adoption) keepPath(of sock.Addr) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !of.HasFile() {
		return nil
	}
	return a.paths.keep(of.Path)
}

// watchPaths restores the paths of sockets as soon as they are removed, from now on. stop
// does so for the last time.
func (a *adoption) watchPaths(sockets []activation.Socket) (stop func()) {
	dirs := map[string]bool{}
	for _, s := range sockets {
		if !s.Reachable() {
			continue // what is at its path is somebody else's
		}
		if err := a.keepPath(s.Info.Addr); err != nil {
			a.log.Warn("the path of a socket may go with the other program", "error", err.Error())
		} else if s.Info.Addr.HasFile() {
			dirs[filepath.Dir(s.Info.Addr.Path)] = true
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	removed := pathWatch{told: -1, over: -1}
	if len(dirs) > 0 {
		removed = a.watchRemovals(dirs)
		watching.Go(func() { a.restoreOn(ctx, removed) })
	}
	return func() {
		cancel()
		removed.wake()
		watching.Wait()
		removed.close()
		a.restorePaths()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.paths.drop()
	}
}

// lookForPaths is how often paths are looked at where nobody tells of their removal.
const lookForPaths = 10 * time.Millisecond

// pathWatch is two descriptors for poll(2), which passes over -1: the kernel has given none.
type pathWatch struct {
	told    int // inotify(7): something was removed from one of some directories
	over    int // an eventfd(2): nobody wants to know any more
	timeout int // of poll, in milliseconds; -1 = none: all of the directories are told of
}

func (a *adoption) watchRemovals(dirs map[string]bool) pathWatch {
	r := pathWatch{told: -1, over: -1, timeout: int(lookForPaths / time.Millisecond)}
	var err error
	if r.over, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err == nil {
		r.told, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	}
	if err != nil {
		a.log.Warn("a removed path is restored with a delay", "error", err.Error())
		return r
	}
	watched := 0
	for dir := range dirs {
		if _, err := unix.InotifyAddWatch(r.told, dir, unix.IN_DELETE|unix.IN_MOVED_FROM); err != nil {
			a.log.Warn("a removed path is restored with a delay", "directory", dir, "error", err.Error())
			continue
		}
		watched++
	}
	if watched == len(dirs) {
		r.timeout = -1
	}
	return r
}

// await returns when paths are to be looked at.
func (r pathWatch) await() {
	const most = 64 << 10 // of events in one go; what they say does not matter
	ready := []unix.PollFd{{Fd: int32(r.told), Events: unix.POLLIN}, {Fd: int32(r.over), Events: unix.POLLIN}}
	if n, _ := unix.Poll(ready, r.timeout); n > 0 && ready[0].Revents != 0 {
		_, _ = unix.Read(r.told, make([]byte, most))
	}
}

// wake has await return from now on.
func (r pathWatch) wake() {
	if r.over >= 0 {
		_, _ = unix.Write(r.over, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

func (r pathWatch) close() {
	for _, fd := range []int{r.told, r.over} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// restoreOn ends with ctx. Clients find no path from the removal until its thread runs, so
// that one comes before all others where this process may ask for it (CAP_SYS_NICE). It is
// never unlocked: the thread ends with the goroutine, and nobody else gets it.
func (a *adoption) restoreOn(ctx context.Context, removed pathWatch) {
	runtime.LockOSThread()
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1, Flags: unix.SCHED_FLAG_RESET_ON_FORK,
	}, 0)
	for ctx.Err() == nil {
		a.restorePaths() // also of what was removed before there was the watch
		removed.await()
	}
}

func (a *adoption) restorePaths() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, path := range a.paths.restore() {
		a.log.Info("the path of a socket was removed, and is there again", "socket", "unix "+path)
	}
}
