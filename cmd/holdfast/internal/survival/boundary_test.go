package survival

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// relayCalls are the kinds of system calls that the relay and its vault make.
var relayCalls = []string{
	"accept4", "close", "connect", "connect AF_UNSPEC", "epoll_ctl ADD", "epoll_ctl DEL", "epoll_wait", "fallocate",
	"fcntl F_SETPIPE_SZ", "getpeername", "getsockname", "getsockopt", "getsockopt SO_ERROR", "getsockopt SO_PEEK_OFF", "getsockopt SO_PROTOCOL",
	"getsockopt TCP_INFO", "ioctl TIOCINQ", "ioctl TIOCOUTQ", "mmap of the table", "openat of a pipe", "pipe2", "recvfrom", "recvfrom the vault",
	"recvfrom with MSG_PEEK", "recvmsg for TCP_CM_INQ", "recvmsg from the vault", "sendmsg of a client", "sendmsg of a client anew", "sendmsg of a pipe", "sendmsg of what was there", "sendto",
	"setsockopt", peeksVault, setsCounter, setsItAnew, "setsockopt TCP_INQ", "shutdown", "socket", "splice", "write into a pipe",
}

func TestKilledAtEachSystemCallNothingIsLost(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	r := rand.New(rand.NewPCG(h.seed, 200))
	tr := h.traffic(60, 4<<20)
	hits, met := map[boundary]int{}, map[boundary]int{}
	for n, most := 0, kills(120); !t.Failed() && (n < most || len(missing(hits, met)) > 0 && n < 3*most); n++ {
		target := choose(r, hits, met, n)
		usual := met[target] / (2 * max(n, 1)) // in half of a life
		if h.traced(nil, target, int(logUniform(r, 1, int64(max(1, usual))))-1, time.Second, met) {
			hits[target]++
		}
	}
	tr.end(h.start(nil))
	t.Log(table(hits, met))
	if !t.Failed() {
		assert.Empty(t, missing(hits, met), "the child was never killed there")
	}
}

// Only where nothing but the counter tells what was read does it show that one is wrong.
func TestKilledWhileACounterIsSetAnewNothingIsLost(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	r := rand.New(rand.NewPCG(h.seed, 250))
	tr := h.traffic(20, 1<<20, h.routes[2])
	var hits [2]int
	for n := 0; n < kills(30) && !t.Failed(); n++ {
		at := boundary{setsItAnew, n%2 == 1, true}
		if h.traced(nil, at, r.IntN(10), time.Second, map[boundary]int{}) {
			hits[n%2]++
		}
	}
	tr.end(h.start(nil))
	t.Log(hits)
	assert.Positive(t, hits[0], "never before")
	assert.Positive(t, hits[1], "never after")
}

// missing are the boundaries at which no child was killed, neither starting nor later: that
// of the two which is met more often.
func missing(hits, met map[boundary]int) []boundary {
	var list []boundary
	for _, call := range relayCalls {
		for _, after := range []bool{false, true} {
			starting, serving := boundary{call, after, false}, boundary{call, after, true}
			switch {
			case hits[starting]+hits[serving] > 0:
			case met[starting] > met[serving]:
				list = append(list, starting)
			default:
				list = append(list, serving)
			}
		}
	}
	return list
}

// choose chooses among the boundaries at which a child was killed least: those that are met
// in most lives, and those at which none was killed at all.
func choose(r *rand.Rand, hits, met map[boundary]int, lives int) boundary {
	candidates := missing(hits, met)
	for b, times := range met {
		if times > lives {
			candidates = append(candidates, b)
		}
	}
	var least []boundary
	for _, b := range candidates {
		switch {
		case len(least) == 0 || hits[b] < hits[least[0]]:
			least = []boundary{b}
		case hits[b] == hits[least[0]]:
			least = append(least, b)
		}
	}
	slices.SortFunc(least, boundary.compare) // a map has no order, and a seed should have one
	return least[r.IntN(len(least))]
}

func (b boundary) compare(other boundary) int { return strings.Compare(b.String(), other.String()) }

// table tells how often a child was killed at each boundary, and how often one passed.
func table(hits, met map[boundary]int) string {
	var b strings.Builder
	for _, at := range slices.SortedFunc(maps.Keys(met), func(a, b boundary) int {
		return strings.Compare(a.call+fmt.Sprint(a.after), b.call+fmt.Sprint(b.after))
	}) {
		fmt.Fprintf(&b, "\n%4d kills of %7d %s", hits[at], met[at], at)
	}
	return b.String()
}
