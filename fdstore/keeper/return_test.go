package keeper_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore/keeper"
)

// inDir is a house whose keepers find their processes again.
func inDir(t *testing.T, o keeper.Options) *house {
	t.Helper()
	h := newHouse(t, o)
	h.options.Dir = filepath.Join(h.dir, "keeper")
	h.start()
	return h
}

// follows has the process watch its keeper, and tells whether that is another one to it.
func (h *house) follows(s *service) (renewed bool) {
	h.t.Helper()
	before := len(sockets(s.PID))
	s.do(request{Do: "follow"})
	h.eventually("it is connected", func() bool { return len(sockets(s.PID)) > before })
	return s.do(request{Do: "renewed"}).Number > 0
}

// killed kills the keeper and waits for its end.
func (h *house) killed() {
	h.t.Helper()
	h.signal(unix.SIGKILL)
	h.code()
}

func TestTheServiceRunsOnWhenTheKeeperIsKilled(t *testing.T) {
	t.Parallel()
	h := inDir(t, keeper.Options{StoreMax: 5, StopTimeout: patience})
	s := h.next()
	s.do(request{Do: "open", Count: 5})
	s.do(request{Do: "keep", Names: []string{"entry/1"}})
	s.do(request{Do: "follow"})
	assert.Equal(t, "true", s.do(request{Do: "is child"}).Text)
	h.killed()
	require.True(t, running(s.PID))
	_, err := s.try(request{Do: "job"})
	require.NoError(t, err)

	h.start()
	h.logs("taken on", "pid="+strconv.Itoa(s.PID))
	h.eventually("the service is told", func() bool { return s.do(request{Do: "renewed"}).Number == 1 })
	assert.Equal(t, "restart", s.do(request{Do: "job"}).Text)
	assert.Equal(t, "false", s.do(request{Do: "is child"}).Text)
	s.do(request{Do: "fork"})
	assert.False(t, h.follows(h.next()), "its successor knows this keeper")
	s.do(request{Do: "open", Count: 5})
	s.do(request{Do: "keep", Names: []string{"entry/2"}})
	h.signal(unix.SIGHUP)
	h.eventually("signals are passed on", func() bool { return len(s.do(request{Do: "caught"}).Names) == 1 })

	s.kill(unix.SIGKILL)
	next := h.next()
	assert.Equal(t, h.keeper.Process.Pid, next.Parent)
	assert.Equal(t, []string{"entry/2"}, next.Names)
	h.stop()
	assert.NoFileExists(t, filepath.Join(h.options.Dir, "main"))
	assert.NoFileExists(t, filepath.Join(h.options.Dir, "notify.sock"))
}

func TestKeepersComeAndGo(t *testing.T) {
	t.Parallel()
	h := inDir(t, keeper.Options{StoreMax: 5, StopTimeout: patience})
	s := h.next()
	s.do(request{Do: "follow"})
	for i := range 5 {
		h.killed()
		h.start()
		h.eventually("the service is told", func() bool { return s.do(request{Do: "renewed"}).Number == i+1 })
		s.push("x", 1)
		s.say("READY=1")
	}
	s.exit(0)
	assert.Equal(t, []string{"x"}, h.next().Names)
	h.stop()
	assert.Equal(t, 2, count(h.log(), "msg=started")+count(h.log(), "msg=restarted"))
}

func TestAServiceKnowsTheKeeperThatStartedItFromTheNext(t *testing.T) {
	t.Parallel()
	h := inDir(t, keeper.Options{StopTimeout: patience})
	s := h.next()
	assert.False(t, h.follows(s))
	h.killed()
	h.start()
	h.eventually("it is told", func() bool { return s.do(request{Do: "renewed"}).Number == 1 })
	h.stop()
}

func TestAServiceThatBeginsToFollowWhenThereIsNoKeeperKnowsTheNext(t *testing.T) {
	t.Parallel()
	h := inDir(t, keeper.Options{StopTimeout: patience})
	s := h.next()
	h.killed()
	s.do(request{Do: "follow"})
	h.start()
	h.eventually("it is told", func() bool { return s.do(request{Do: "renewed"}).Number == 1 })
	h.stop()
}

func TestAServiceKnowsWhetherAKeeperIsThere(t *testing.T) {
	t.Parallel()
	h := inDir(t, keeper.Options{StopTimeout: patience})
	s := h.next()
	answers := func(want bool) func() bool {
		return func() bool { return s.do(request{Do: "answers"}).Text == strconv.FormatBool(want) }
	}
	assert.True(t, answers(true)(), "who has started it")
	s.do(request{Do: "follow"})
	assert.True(t, answers(true)())
	h.killed()
	h.eventually("it knows that there is none", answers(false))
	h.start()
	h.eventually("it knows the next one", answers(true))
	assert.Equal(t, 1, s.do(request{Do: "renewed"}).Number, "which has everything by now")
	h.stop()
}

// That it cannot ask says nothing about the keeper.
func TestAServiceWithoutDescriptorsHasItsKeeper(t *testing.T) {
	t.Parallel()
	h := inDir(t, keeper.Options{StopTimeout: patience})
	s := h.next()
	s.do(request{Do: "files"})
	s.do(request{Do: "follow"})
	for range 3 {
		said, err := s.try(request{Do: "job"})
		require.NoError(t, err)
		require.Contains(t, said.Error, "too many open files")
		assert.Equal(t, "true", s.do(request{Do: "answers"}).Text)
	}
	h.stop()
}

func TestAServiceThatEndedMeanwhileIsStartedAgain(t *testing.T) {
	t.Parallel()
	h := inDir(t, keeper.Options{StopTimeout: patience})
	s := h.next()
	h.killed()
	s.exit(0)
	s.gone()
	h.start()
	h.next()
	h.stop()
}

func TestASuccessorIsFoundToo(t *testing.T) {
	t.Parallel()
	h := inDir(t, keeper.Options{StopTimeout: patience})
	first := h.next()
	second := upgrade(h, first)
	h.killed()
	h.start()
	h.logs("taken on", "pid="+strconv.Itoa(second.PID))
	first.exit(0)
	third := upgrade(h, second) // which is no descendant of this keeper
	second.exit(0)
	third.say("READY=1")
	h.logs("ready", "pid="+strconv.Itoa(third.PID))
	h.stop()
	third.gone()
}

func TestWhatIsTakenOnIsEndedByAStop(t *testing.T) {
	t.Parallel()
	h := inDir(t, keeper.Options{StopTimeout: patience})
	s := h.next()
	h.killed()
	h.start()
	h.logs("taken on")
	h.stop()
	s.gone()
}

func TestARecordOfAnotherProcessIsNone(t *testing.T) {
	t.Parallel()
	self, err := os.ReadFile("/proc/self/stat")
	require.NoError(t, err)
	started := strings.Fields(string(self)[strings.LastIndex(string(self), ")")+1:])[19]
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	require.NoError(t, err)
	for name, record := range map[string]string{
		"started later":   strconv.Itoa(os.Getpid()) + " 1 " + string(boot),
		"of another boot": strconv.Itoa(os.Getpid()) + " " + started + " b52a0dc1-5c8f-4e52-a1b5-5a5f5bb33bc0\n",
		"empty":           "",
		"no content":      strings.Repeat("\x00", 60),
		"no such process": "4194305 1 " + string(boot),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, keeper.Options{StopTimeout: patience})
			h.options.Dir = filepath.Join(h.dir, "keeper")
			require.NoError(t, os.Mkdir(h.options.Dir, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(h.options.Dir, "main"), []byte(record), 0o600))
			h.start()
			h.next()
			h.stop()
		})
	}
}

func TestARecordThatIsNoneIsAnError(t *testing.T) {
	t.Parallel()
	h := newHouse(t, keeper.Options{})
	h.options.Dir = h.dir
	require.NoError(t, os.WriteFile(filepath.Join(h.dir, "main"), []byte("garbage\n"), 0o600))
	h.start()
	assert.Equal(t, 125, h.code())
	assert.Contains(t, h.log(), "not the record of a process")
}

func TestADirectoryHasOneKeeper(t *testing.T) {
	t.Parallel()
	h := inDir(t, keeper.Options{StopTimeout: patience})
	s := h.next()
	first, ended := h.keeper, h.ended
	h.start()
	assert.Equal(t, 125, h.code())
	assert.Contains(t, h.log(), "another keeper is running")
	s.say("READY=1")
	h.keeper, h.ended = first, ended
	h.logs("ready")
	h.stop()
}

func TestADirectoryThatCannotBeUsedIsAnError(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]string{
		"no parent": "none/keeper",
		"a file":    "log",
		"too long":  strings.Repeat("x", 100),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, keeper.Options{})
			h.options.Dir = filepath.Join(h.dir, dir)
			h.start()
			assert.Equal(t, 125, h.code())
			assert.Contains(t, h.log(), h.options.Dir)
		})
	}
}

func TestAClientWithoutAKeeper(t *testing.T) {
	t.Setenv("KEEPER_SOCKET", "")
	none := keeper.ClientFromEnv()
	require.Nil(t, none)
	job, err := none.Job(t.Context())
	require.NoError(t, err)
	assert.Equal(t, keeper.JobUnknown, job)
	none.Follow(t.Context(), func() { assert.Fail(t, "there is none") })
	assert.Empty(t, none.Environ())
	assert.False(t, none.Answers())

	t.Setenv("KEEPER_SOCKET", "@keeper-test/nobody")
	t.Setenv("KEEPER_ID", "7")
	gone := keeper.ClientFromEnv()
	assert.Empty(t, os.Getenv("KEEPER_SOCKET"))
	assert.Equal(t, []string{"KEEPER_SOCKET=@keeper-test/nobody", "KEEPER_ID=7"}, gone.Environ())
	job, err = gone.Job(t.Context())
	require.Error(t, err)
	assert.Equal(t, keeper.JobUnknown, job)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	gone.Follow(ctx, func() { assert.Fail(t, "it does not come back") })
}
