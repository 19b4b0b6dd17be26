package survival

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
	"github.com/holdfast-proxy/holdfast/fdstore/vault"
	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/relay"
	"github.com/holdfast-proxy/holdfast/proxy/upstream"
)

// child is the process that is killed: a relay with its vault, as the daemon has it.
type child struct {
	settings settings
	log      *slog.Logger
	vault    *vault.Vault
	relay    *relay.Relay
	sockets  map[string]*relay.Socket // by name of the listener
}

// runChild goes on with what there is, and serves until the parent has closed the pipe
// of commands.
func runChild(text string) error {
	c := &child{
		log:     slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})),
		sockets: map[string]*relay.Socket{},
	}
	if err := json.Unmarshal([]byte(text), &c.settings); err != nil {
		return err
	}
	if c.settings.Pipeless {
		if err := refusePipes(); err != nil {
			return err
		}
	}
	relay.MostCounted = 32 << 10
	began := time.Now()
	found, store, err := c.openVault()
	if err != nil {
		return err
	}
	if c.relay, err = relay.New(relay.Options{Loops: c.settings.Loops, Descriptors: 20_000, Log: c.log}); err != nil {
		return err
	}
	if err := c.vault.Entrust(context.Background(), store); err != nil {
		return err
	}
	vaults := make([]relay.Vault, c.settings.Loops)
	for i := range vaults {
		vaults[i] = c.vault.Writer(i)
	}
	notes := maps.Collect(c.vault.Notes())
	c.relay.Attach(vaults, c.vault.Common(), notes)
	c.relay.Hold()
	c.serve()
	if err := c.goOn(found, notes, began); err != nil {
		return err
	}
	return c.obey()
}

// openVault makes the vault of what came back.
func (c *child) openVault() (vault.Found, *fdstore.Store, error) {
	var held []fdstore.Held
	for i, name := range c.settings.Held {
		unix.CloseOnExec(c.settings.First + i)
		held = append(held, fdstore.Held{Name: name, FD: sock.NewFD(c.settings.First + i)})
	}
	back := fdstore.Reconcile(held, vault.IsName)
	store, err := fdstore.Open(context.Background(), &storetest.Notifier{Socket: c.settings.Notify}, back, fdstore.Options{})
	if err != nil {
		return vault.Found{}, nil, err
	}
	o := vault.Options{
		Writers: c.settings.Loops, InFlight: c.settings.InFlight, Slots: c.settings.Slots,
		Format: relay.SlotFormat, Reads: relay.OldestFormat, Log: c.log,
	}
	if len(back.Known) == 0 {
		c.vault, err = vault.New(o)
		return vault.Found{}, store, err
	}
	var found vault.Found
	c.vault, found, err = vault.Restore(o, back.Known)
	return found, store, err
}

// serve accepts from all listening sockets.
func (c *child) serve() {
	for _, r := range c.settings.Routes {
		unix.CloseOnExec(r.FD)
		cfg := config.Upstream{Name: r.Name, Balance: config.RoundRobin, ConnectTimeout: 5 * time.Second, ConnectRetry: 10 * time.Second}
		for _, b := range r.Backends {
			network, address, _ := strings.Cut(b, " ")
			a := config.Address{Network: network, Path: address}
			if network == "tcp" {
				ap := netip.MustParseAddrPort(address)
				a = config.Address{Network: network, Host: ap.Addr().String(), Port: ap.Port()}
			}
			cfg.Servers = append(cfg.Servers, a)
		}
		service := &relay.Service{
			Listener: r.Name, Generation: 1, Pool: upstream.New(cfg, c.log, nil), Limit: relay.NewLimit(0),
			ConnectTimeout: cfg.ConnectTimeout, ConnectRetry: cfg.ConnectRetry, SendProxy: r.SendProxy,
			IdleTimeout: c.settings.Idle,
		}
		if r.AcceptProxy {
			service.Trusted = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		}
		cookie, err := unix.GetsockoptUint64(r.FD, unix.SOL_SOCKET, unix.SO_COOKIE)
		if err != nil {
			panic(err)
		}
		c.sockets[r.Name] = relay.NewSocket(r.FD, cookie, r.Name, service)
		c.relay.Serve(c.sockets[r.Name])
	}
}

// goOn goes on with the connections that were found.
func (c *child) goOn(found vault.Found, notes map[uint32][]byte, began time.Time) error {
	kept := make([]relay.Kept, len(found.Kept))
	for i, k := range found.Kept {
		kept[i] = relay.Kept(k)
	}
	for _, l := range found.Lost {
		c.log.Error("lost by the vault", "reason", l.Reason)
	}
	clients := clientsOf(kept)
	c.damage(kept)
	uses := map[uint32]relay.Use{}
	for number, content := range notes {
		n, err := relay.ReadNote(content)
		if err != nil {
			return fmt.Errorf("note %d: %w", number, err)
		}
		if n.Kind != relay.OfUse {
			continue
		}
		s := c.sockets[n.Listener]
		uses[number] = relay.Use{Socket: s, Service: s.Service()}
	}
	done := c.relay.Restore(kept, uses)
	c.relay.Unhold()
	if err := c.vault.Settle(); err != nil {
		return err
	}
	c.report(report{What: "restored", Restored: done.Connections, Ended: done.Ended, Lost: done.Lost + len(found.Lost), Damaged: c.settings.Damage, Pause: time.Since(began), Clients: clients})
	return nil
}

// clientsOf are the addresses of the clients that are connected over TCP.
func clientsOf(kept []relay.Kept) []netip.AddrPort {
	var all []netip.AddrPort
	for _, k := range kept {
		if sa, err := unix.Getpeername(int(k.FDs[0])); err == nil {
			if sa, ok := sa.(*unix.SockaddrInet4); ok {
				all = append(all, netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)))
			}
		}
	}
	return all
}

// damage fills some slots with garbage.
func (c *child) damage(kept []relay.Kept) {
	r := rand.New(rand.NewPCG(c.settings.Seed, 5))
	r.Shuffle(len(kept), func(i, j int) { kept[i], kept[j] = kept[j], kept[i] })
	done := 0
	for _, k := range kept {
		if done == c.settings.Damage || k.FDs[1] < 0 { // it is a pipe, or has no server yet
			continue
		}
		done++
		from := []int{0, 4, 12}[r.IntN(3)] // its state, and the note as well, may be good
		if k.Memory[0] == 0 {
			from = 0 // else it would be dialled again
		}
		for j := range k.Memory[from:] {
			k.Memory[from+j] = byte(r.Uint32())
		}
	}
	c.settings.Damage = done
}

func (c *child) report(r report) {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	_, _ = unix.Write(reportFD, append(text, '\n'))
}

// obey does what the parent says until it closes the pipe.
func (c *child) obey() error {
	unix.CloseOnExec(commandFD)
	for lines := bufio.NewReader(os.NewFile(commandFD, "command")); ; {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch what := strings.TrimSpace(line); what {
		case "stats":
			s := c.relay.Stats()
			var accepted int64
			for _, socket := range c.sockets {
				accepted += socket.Accepted()
			}
			c.report(report{What: what, Unkept: s.Unkept, Active: s.Active, Accepted: accepted, BytesIn: s.BytesIn, Kept: c.vault.Stats().Kept})
		case "let go":
			for _, s := range c.sockets {
				<-c.relay.Release(s, false)
			}
			c.relay.LetGo()
			if err := c.vault.Close(); err != nil {
				return err
			}
			c.report(report{What: what})
		}
	}
}

// refusePipes has the kernel give this process no pipe that does not block, which are
// those of the relay, as if all descriptors were used.
func refusePipes() error {
	const call, flags = 0, 24 // places in struct seccomp_data
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: call},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PIPE2, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: flags},
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.O_NONBLOCK, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EMFILE)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}
