package machine

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/vmtest/child"
	"github.com/holdfast-proxy/holdfast/vmtest/image"
	"github.com/holdfast-proxy/holdfast/vmtest/scratch"
	"github.com/holdfast-proxy/holdfast/vmtest/wire"
)

// victimVar names the driver of a machine that this test binary is to boot and
// then to be killed with.
const victimVar = "VMTEST_MACHINE_VICTIM"

func TestMain(m *testing.M) {
	if driver := os.Getenv(victimVar); driver != "" {
		beVictim(Driver(driver))
	}
	os.Exit(m.Run())
}

// options are those of a machine of the oldest release, which boots fastest.
func options(ctx context.Context, driver Driver, dir string) (Options, error) {
	i, err := testImage(ctx)
	if err != nil {
		return Options{}, err
	}
	program := filepath.Join(dir, "guest")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./vmtest/guest")
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return Options{}, fmt.Errorf("%w: %s", err, out)
	}
	content, err := os.ReadFile(program)
	return Options{Image: i, Driver: driver, Payload: map[string][]byte{"guest": content}, Cache: testCache(), Log: os.Stderr}, err
}

func testImage(ctx context.Context) (*image.Image, error) {
	return image.Ensure(ctx, testCache(), image.Releases[0], os.Stderr)
}

func testCache() string {
	if cache := os.Getenv("VMTEST_CACHE"); cache != "" {
		return cache
	}
	return "../.cache"
}

// eachDriver runs a test with each way to boot.
func eachDriver(t *testing.T, test func(t *testing.T, driver Driver)) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs virtual machines")
	}
	for _, driver := range []Driver{QEMU, Nspawn} {
		t.Run(string(driver), func(t *testing.T) {
			if driver == Nspawn && os.Geteuid() != 0 {
				t.Skip("systemd-nspawn needs root")
			}
			test(t, driver)
		})
	}
}

func start(t *testing.T, driver Driver) *Machine {
	t.Helper()
	o, err := options(t.Context(), driver, t.TempDir())
	require.NoError(t, err)
	m, err := Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() {
		m.Close()
		assert.Empty(t, leftOf(m.dir.Path))
	})
	return m
}

func TestCommandsAndFilesOfAMachine(t *testing.T) {
	eachDriver(t, func(t *testing.T, driver Driver) {
		m := start(t, driver)

		r, err := m.Run(t.Context(), wire.Command{Args: []string{"sh", "-c", "cat; echo no >&2; exit 3"}, Stdin: []byte("yes"), Timeout: time.Minute})
		require.NoError(t, err)
		assert.Equal(t, wire.Result{Stdout: []byte("yes"), Stderr: []byte("no\n"), Code: 3}, r)

		_, err = m.Run(t.Context(), wire.Command{Args: []string{"/nowhere"}, Timeout: time.Minute})
		require.ErrorContains(t, err, "no such file")

		began := time.Now()
		r, err = m.Run(t.Context(), wire.Command{Args: []string{"sh", "-c", "echo a; sleep 100 & sleep 100"}, Timeout: 3 * time.Second})
		require.NoError(t, err)
		assert.Equal(t, wire.Result{Stdout: []byte("a\n"), Code: -1, TimedOut: true}, r)
		assert.Less(t, time.Since(began), 20*time.Second)

		const daemon = "setsid sleep 1000 & echo $!; "
		for _, script := range []string{daemon + "exit 7", daemon + "sleep 1000"} {
			r, err = m.Run(t.Context(), wire.Command{Args: []string{"sh", "-c", script}, Timeout: 3 * time.Second})
			require.NoError(t, err)
			pid := strings.TrimSpace(string(r.Stdout))
			require.NotEmpty(t, pid)
			r, err = m.Run(t.Context(), wire.Command{Args: []string{"ps", "-o", "args=", pid}, Timeout: time.Minute})
			require.NoError(t, err)
			assert.Empty(t, string(r.Stdout), "left of: %s", script)
		}

		r, err = m.Run(t.Context(), wire.Command{Args: []string{"sh", "-c", "echo first; head -c 40M /dev/zero; echo last"}, Timeout: time.Minute})
		require.NoError(t, err)
		assert.Less(t, len(r.Stdout), wire.MaxOutput+100)
		for _, part := range []string{"first\n", "\n(… 25165835 bytes were cut out …)\n", "last\n"} {
			assert.True(t, bytes.Contains(r.Stdout, []byte(part)), part)
		}

		f := wire.File{Path: "/srv/new/file", Content: []byte(strings.Repeat("x", 1<<20)), Mode: 0o751}
		for range 2 { // it replaces one that is there
			require.NoError(t, m.Put(t.Context(), f))
			back, err := m.Get(t.Context(), f.Path)
			require.NoError(t, err)
			assert.Equal(t, f, back)
		}
		_, err = m.Get(t.Context(), "/nowhere")
		require.ErrorContains(t, err, "no such file")
		assert.True(t, m.Alive())
	})
}

func TestAMachineThatHangsIsKilled(t *testing.T) {
	eachDriver(t, func(t *testing.T, driver Driver) {
		m := start(t, driver)
		method, question := "Run", any(wire.Command{Args: []string{"systemctl", "kill", "--signal=STOP", "harness-agent"}, Timeout: time.Minute})
		if driver == QEMU {
			require.NoError(t, syscall.Kill(m.process.PID, syscall.SIGSTOP))
			method, question = "Put", wire.File{Path: "/srv/file", Content: make([]byte, 8<<20)} // more than the line takes
		}
		err := m.call(t.Context(), method, question, &wire.Nothing{}, 3*time.Second)
		require.ErrorContains(t, err, "did not answer and was killed")
		assert.False(t, m.Alive())
	})
}

func TestAMachineWithoutItsAgentIsKilled(t *testing.T) {
	eachDriver(t, func(t *testing.T, driver Driver) {
		m := start(t, driver)
		kill := wire.Command{Args: []string{"systemctl", "kill", "--signal=KILL", "harness-agent"}, Timeout: time.Minute}
		require.Error(t, m.call(t.Context(), "Run", kill, &wire.Result{}, 3*time.Second))
		assert.False(t, m.Alive())
	})
}

// Not in a container: its kernel is the one of this host.
func TestAKernelThatPanicsIsToldAsTheEndOfItsMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("needs virtual machines")
	}
	m := start(t, QEMU)
	_, err := m.Run(t.Context(), wire.Command{Args: []string{"sh", "-c", "echo c >/proc/sysrq-trigger"}, Timeout: time.Minute})
	require.ErrorContains(t, err, "the machine ended: it ended by itself")
	assert.False(t, m.Alive())
	assert.Contains(t, m.Console(), "Kernel panic")
	_, err = m.Run(t.Context(), wire.Command{Args: []string{"true"}, Timeout: time.Minute})
	require.ErrorContains(t, err, "the machine ended", "it stays so")
}

func TestAMissingProgramIsAClearError(t *testing.T) {
	t.Setenv("PATH", "")
	for _, driver := range []Driver{QEMU, Nspawn} {
		_, err := Start(t.Context(), Options{Driver: driver, Image: &image.Image{Release: image.Releases[0]}})
		if driver == Nspawn && os.Geteuid() != 0 {
			assert.ErrorContains(t, err, "needs root")
		} else {
			assert.ErrorContains(t, err, ".ci/setup vm installs it")
		}
	}
}

func TestAProgramThatDoesNotStartIsAClearError(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("PATH", dir)
	require.NoError(t, os.WriteFile("modules.cpio", nil, 0o644)) // of an image in this folder
	require.NoError(t, os.WriteFile(qemu, []byte("garbage"), 0o755))
	_, err := Start(t.Context(), Options{Driver: QEMU, Image: &image.Image{Release: image.Releases[0]}, Cache: ".", Log: io.Discard})
	require.ErrorContains(t, err, "exec format error")
}

func TestABootThatFailsIsToldWithItsConsole(t *testing.T) {
	if testing.Short() {
		t.Skip("needs virtual machines")
	}
	o, err := options(t.Context(), QEMU, t.TempDir())
	require.NoError(t, err)
	o.Payload = nil // an empty init
	_, err = Start(t.Context(), o)
	require.ErrorContains(t, err, "the machine ended")
	require.ErrorContains(t, err, "Kernel panic")
}

func TestWhatIsKnownOfKVMIsFoundOutOnce(t *testing.T) {
	for file, want := range map[string]int{
		filepath.Join(t.TempDir(), "kvm.json"):     1,
		filepath.Join(t.TempDir(), "no", "folder"): 2, // where it cannot be written
	} {
		found := 0
		for range 2 {
			v, err := remembered(file, func() (verdict, error) {
				found++
				return verdict{Reason: "no"}, nil
			})
			require.NoError(t, err)
			assert.Equal(t, verdict{Reason: "no"}, v)
		}
		assert.Equal(t, want, found, file)
	}
}

// On a host that is busy, or that has KVM and cannot run a guest with it.
func TestThatAGuestUnderKVMTookTooLongIsNotRemembered(t *testing.T) {
	slow := t.TempDir()
	t.Setenv("PATH", slow+":"+os.Getenv("PATH"))
	require.NoError(t, os.WriteFile(filepath.Join(slow, qemu), []byte("#!/bin/sh\nexec sleep 1000\n"), 0o755))
	file := filepath.Join(t.TempDir(), "kvm.json")
	v, err := remembered(file, func() (verdict, error) {
		return probeKVM(t.Context(), Options{Image: &image.Image{}, Log: io.Discard}, "", time.Millisecond)
	})
	require.NoError(t, err)
	assert.False(t, v.Usable)
	assert.Contains(t, v.Reason, "did not come up in 1ms")
	assert.NoFileExists(t, file)
}

func TestNothingIsLeftOfAKilledTest(t *testing.T) {
	eachDriver(t, func(t *testing.T, driver Driver) {
		_, err := testImage(t.Context()) // to build it may take long
		require.NoError(t, err)
		out, in, err := os.Pipe()
		require.NoError(t, err)
		defer out.Close()
		cmd := exec.Command(os.Args[0])
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), victimVar+"="+string(driver)), in, os.Stderr
		victim, err := child.Start(cmd)
		require.NoError(t, err)
		defer victim.Kill()
		require.NoError(t, in.Close())
		require.NoError(t, out.SetReadDeadline(time.Now().Add(bootPatience+time.Minute)))
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		dir, list, _ := strings.Cut(strings.TrimSpace(line), " ")
		require.NotEmpty(t, list)

		victim.Kill()
		for word := range strings.FieldsSeq(list) {
			pid, err := strconv.Atoi(word)
			require.NoError(t, err)
			assert.Eventually(t, func() bool { return !child.Runs(pid) }, 10*time.Second, 10*time.Millisecond, "process %d", pid)
		}
		next, err := scratch.New()
		require.NoError(t, err)
		require.NoError(t, next.Remove())
		assert.Empty(t, leftOf(dir))
	})
}

// beVictim boots a machine, prints its folder and its processes, and waits for
// the end.
func beVictim(driver Driver) {
	dir, err := scratch.New()
	if err != nil {
		panic(err)
	}
	o, err := options(context.Background(), driver, dir.Path)
	if err != nil {
		panic(err)
	}
	m, err := Start(context.Background(), o)
	if err != nil {
		panic(err)
	}
	if err := dir.Remove(); err != nil {
		panic(err)
	}
	fmt.Println(m.dir.Path, strings.Join(descendants(os.Getpid()), " "))
	select {}
}

// leftOf is what there still is of the machine with this folder.
func leftOf(dir string) []string {
	var left []string
	for _, place := range []string{filepath.Dir(dir), "/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		found, _ := filepath.Glob(filepath.Join(place, filepath.Base(dir)))
		left = append(left, found...)
	}
	return left
}

// descendants are the processes below pid.
func descendants(pid int) []string {
	var found []string
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		for child := range strings.FieldsSeq(string(children)) {
			n, _ := strconv.Atoi(child)
			found = append(append(found, child), descendants(n)...)
		}
	}
	return found
}
