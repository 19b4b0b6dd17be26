package vault_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
	"github.com/holdfast-proxy/holdfast/fdstore/vault"
)

// The child keeps and drops what its parent has given it, and is killed at any moment.
// Before and after each call it writes down, in memory that the parent has as well,
// what it is about to do and what it has done.
const (
	killConns = 40

	logFD       = 3
	firstConnFD = 4 // two for each connection, then the files of the vault

	vaultNames    = "VAULT_TEST_NAMES"
	managerSocket = "VAULT_TEST_SOCKET"
)

// What a log says about a connection.
const (
	dropped  uint32 = iota
	keeping         // may be kept or not
	kept            // must be found
	dropping        // may be kept or not
)

// killLog is the memory that parent and child share.
type killLog struct {
	words []atomic.Uint32 // the phase, then the state of each connection
}

const (
	restoring uint32 = iota + 1
	restored
	failed
)

func mapLog(fd int) (*killLog, error) {
	mem, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &killLog{words: unsafe.Slice((*atomic.Uint32)(unsafe.Pointer(&mem[0])), 1+killConns)}, nil
}

func (l *killLog) phase() *atomic.Uint32      { return &l.words[0] }
func (l *killLog) state(i int) *atomic.Uint32 { return &l.words[1+i] }
func killOptions() vault.Options {
	return vault.Options{Slots: 1000, InFlight: 4000, Attempts: 1 << 20} // nobody settles
}
func nearFDs(i int) (a, b int32) { return int32(firstConnFD + 2*i), int32(firstConnFD + 2*i + 1) }

func cookieOf(fd int32) (c uint64, err error) {
	return unix.GetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_COOKIE)
}

func init() {
	children["keeps and drops"] = func() error {
		log, err := mapLog(logFD)
		if err != nil {
			return err
		}
		err = keepAndDrop(log)
		log.phase().Store(failed)
		return err
	}
}

// keepAndDrop is a life. It ends by being killed, or with what is wrong.
func keepAndDrop(log *killLog) error {
	log.phase().Store(restoring)
	v, slots, err := takeUp(log)
	if err != nil {
		return err
	}
	log.phase().Store(restored)
	w := v.Writer(0)
	for {
		i := rand.IntN(killConns)
		switch slot, isKept := slots[i]; {
		case isKept:
			log.state(i).Store(dropping)
			w.Drop(slot)
			log.state(i).Store(dropped)
			delete(slots, i)
		default:
			slot, memory, ok := w.Take()
			if !ok {
				return errors.New("no slot")
			}
			binary.NativeEndian.PutUint64(memory, uint64(i))
			log.state(i).Store(keeping)
			a, b := nearFDs(i)
			if !w.Keep(slot, a, b) {
				log.state(i).Store(dropped)
				continue
			}
			log.state(i).Store(kept)
			slots[i] = slot
		}
		if rand.IntN(50) == 0 {
			v.Sweep()
		}
	}
}

// takeUp makes or restores the vault, and compares what is found with the log.
func takeUp(log *killLog) (*vault.Vault, map[int]uint32, error) {
	var held []fdstore.Held
	for i, name := range strings.Fields(os.Getenv(vaultNames)) {
		held = append(held, fdstore.Held{Name: name, FD: sock.NewFD(firstConnFD + 2*killConns + i)})
	}
	back := fdstore.Reconcile(held, vault.IsName)
	ctx, cancel := contextFor(soon)
	defer cancel()
	store, err := fdstore.Open(ctx, &storetest.Notifier{Socket: os.Getenv(managerSocket)}, back, fdstore.Options{})
	if err != nil {
		return nil, nil, err
	}
	slots := map[int]uint32{}
	var v *vault.Vault
	if len(back.Known) == 0 {
		v, err = vault.New(killOptions())
	} else {
		var found vault.Found
		if v, found, err = vault.Restore(killOptions(), back.Known); err == nil {
			err = compare(log, found, slots)
		}
	}
	if err == nil {
		err = v.Entrust(ctx, store)
	}
	return v, slots, err
}

// compare holds what was found against what the killed ones have written down.
func compare(log *killLog, found vault.Found, slots map[int]uint32) error {
	if len(found.Lost) > 0 {
		return fmt.Errorf("lost: %v", found.Lost)
	}
	for _, k := range found.Kept {
		i := int(idOf(k))
		if _, twice := slots[i]; twice {
			return fmt.Errorf("connection %d is found twice", i)
		}
		slots[i] = k.Slot
		a, b := nearFDs(i)
		for j, want := range []int32{a, b} {
			w, errW := cookieOf(want)
			g, errG := cookieOf(k.FDs[j])
			if errW != nil || errG != nil || w != g {
				return fmt.Errorf("connection %d has come with another's descriptor", i)
			}
			_ = unix.Close(int(k.FDs[j]))
		}
	}
	for i := range killConns {
		_, isFound := slots[i]
		switch state := log.state(i).Load(); {
		case state == kept && !isFound:
			return fmt.Errorf("connection %d was kept and is not found", i)
		case state == dropped && isFound:
			return fmt.Errorf("connection %d was dropped and is found", i)
		case isFound:
			log.state(i).Store(kept)
		default:
			log.state(i).Store(dropped)
		}
	}
	return nil
}

func TestKilledAtAnyMomentNothingIsLost(t *testing.T) {
	kills := 250
	if testing.Short() {
		kills = 40
	}
	m := storetest.Start(t, 100)
	raw, err := unix.MemfdCreate("log", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	require.NoError(t, unix.Ftruncate(raw, 4096))
	shared := os.NewFile(uintptr(raw), "log")
	defer shared.Close()
	log, err := mapLog(raw)
	require.NoError(t, err)

	conns := make([]*conn, killConns)
	files := []*os.File{shared}
	for i := range conns {
		conns[i] = newConn(t)
		for _, fd := range conns[i].near {
			files = append(files, os.NewFile(uintptr(fd.Disown()), "near"))
		}
	}
	defer func() {
		for _, f := range files[1:] {
			_ = f.Close()
		}
	}()

	early := 0
	for range kills {
		if live(t, m, log, files) == restoring {
			early++
		}
	}
	t.Logf("%d of %d were killed before they had restored", early, kills)
	assert.NotZero(t, early)
	assert.Less(t, early, kills)

	// What is there in the end still passes bytes.
	require.NoError(t, m.Notifier().Barrier(t.Context()))
	_, held := open(t, m, m.Pass())
	_, found := restore(t, killOptions(), held)
	for _, k := range found.Kept {
		conns[idOf(k)].passes(t, k.FDs)
	}
	for i := range killConns {
		if log.state(i).Load() == kept {
			assert.Contains(t, ids(found), uint64(i))
		}
	}
}

// live lets a child live for a moment, and tells how far it has come.
func live(t *testing.T, m *storetest.Manager, log *killLog, files []*os.File) (phase uint32) {
	t.Helper()
	require.NoError(t, m.Notifier().Barrier(t.Context()))
	var names []string
	for _, h := range m.Pass() {
		names = append(names, h.Name)
		f := os.NewFile(uintptr(h.FD.Disown()), h.Name)
		defer f.Close()
		files = append(files, f)
	}
	log.phase().Store(0)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=keeps and drops", managerSocket+"="+m.Socket(),
		vaultNames+"="+strings.Join(names, " "), "GOMAXPROCS="+strconv.Itoa(2))
	child.ExtraFiles = files
	child.Stderr = os.Stderr
	require.NoError(t, child.Start())
	require.Eventually(t, func() bool { return log.phase().Load() != 0 }, soon, 100*time.Microsecond)
	most := []int{300, 1_000, 8_000}[rand.IntN(3)]
	time.Sleep(time.Duration(rand.IntN(most)) * time.Microsecond) // a random moment, and not a wait
	phase = log.phase().Load()
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	require.NotEqual(t, failed, log.phase().Load())
	return phase
}
