package upstream

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/holdfast-proxy/holdfast/proxy/config"
)

const (
	// lookUpPeriod is the time between two look-ups of a name. The resolver of
	// the standard library does not tell the TTL; this is how long a server that
	// has moved is missed at most while its old address still answers.
	lookUpPeriod = 10 * time.Second
	// lookUpGap is the least time between two look-ups of a name, however many
	// dials fail.
	lookUpGap = time.Second
	// lookUpTimeout bounds one look-up.
	lookUpTimeout = 5 * time.Second
)

// lookUpFunc finds the addresses of a name.
type lookUpFunc func(ctx context.Context, host string) ([]netip.Addr, error)

// lookUpDNS uses /etc/hosts and the name servers of /etc/resolv.conf, which it
// reaches as net.DefaultResolver does. A look-up in libc could not be cancelled
// and would hold a thread until it gives up.
func lookUpDNS(ctx context.Context, host string) ([]netip.Addr, error) {
	resolver := net.Resolver{PreferGo: true, Dial: net.DefaultResolver.Dial}
	return resolver.LookupNetIP(ctx, "ip", host)
}

// addressKind says what turns a configured address into socket addresses.
type addressKind uint8

const (
	fixed addressKind = iota // nothing: a literal address or a Unix path
	zoned                    // the list of interfaces, whose indexes come and go
	named                    // a look-up
)

func kindOf(a config.Address) addressKind {
	if a.Network == "unix" {
		return fixed
	}
	switch addr, err := netip.ParseAddr(a.Host); {
	case err != nil:
		return named
	case addr.Zone() != "":
		return zoned
	default:
		return fixed
	}
}

// targets is where the server is now; at least one, or an error.
func (s *server) targets(ctx context.Context) ([]target, error) {
	if s.address.Network == "unix" {
		t, err := unixTarget(s.address.Path)
		return []target{t}, err
	}
	if s.kind != named {
		t, err := tcpTarget(netip.MustParseAddr(s.address.Host), s.address.Port)
		return []target{t}, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	addrs, err := s.pool.lookUp(ctx, s.address.Host)
	if err != nil {
		return nil, err
	}
	err = errors.New("the name has no address")
	var targets []target
	for _, addr := range addrs {
		t, bad := tcpTarget(addr, s.address.Port)
		if bad != nil {
			err = bad
			continue
		}
		targets = append(targets, t)
	}
	if len(targets) == 0 {
		return nil, err
	}
	return targets, nil
}

// refresh looks the server up once. A failure changes nothing but the error in
// the status: the last known addresses stay.
func (s *server) refresh(ctx context.Context) {
	targets, err := s.targets(ctx)
	if ctx.Err() != nil {
		return // the pool ends; that says nothing about the server
	}
	text := ""
	if err != nil {
		text = reason(err)
	}

	p := s.pool
	p.mu.Lock()
	first, before := !s.lookedUp, s.lookUpErr
	s.lookedUp, s.lookUpErr = true, text
	moved := err == nil && s.move(targets)
	if moved {
		p.publish()
	}
	s.answered()
	p.mu.Unlock()

	switch {
	case text != "" && text != before:
		p.log.Warn(s.label() + ": look-up failed: " + text)
	case moved && !first:
		p.log.Info(s.label() + " is now at " + addresses(targets))
	case text == "" && before != "":
		p.log.Info(s.label() + ": look-up works again")
	}
}

// keepLookedUp follows a server whose addresses can change until ctx ends, and
// calls then after each look-up.
func (s *server) keepLookedUp(ctx context.Context, then func()) {
	var last time.Time
	timer := time.NewTimer(0)
	defer timer.Stop()
	wake := s.wake
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
			wake = nil // until the look-up that it asks for is done
			timer.Reset(time.Until(last.Add(lookUpGap)))
		case <-timer.C:
			if !s.pool.permits.acquire(ctx) {
				return
			}
			s.refresh(ctx)
			s.pool.permits.release()
			then()
			last, wake = time.Now(), s.wake
			timer.Reset(lookUpPeriod)
		}
	}
}

func addresses(targets []target) string {
	var list []string
	for _, t := range targets {
		list = append(list, t.address)
	}
	return strings.Join(list, ", ")
}
