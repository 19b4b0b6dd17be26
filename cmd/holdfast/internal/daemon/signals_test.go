package daemon

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/status"
)

func TestStopSignalsAreACleanStop(t *testing.T) {
	for _, number := range []unix.Signal{unix.SIGTERM, unix.SIGINT} {
		dir := shortDir(t)
		r := serving(t, configIn(dir))
		r.eventually(t, status.Running)
		r.signal(t, number)
		r.end(t)
		r.log.eventually(t, "msg=stopping signal="+unix.SignalName(number))
		assert.Empty(t, filesIn(t, dir))
	}
}

func TestPipeIsIgnored(t *testing.T) {
	r := serving(t, configIn(shortDir(t)))
	r.eventually(t, status.Running)
	r.signal(t, unix.SIGPIPE)
	r.signal(t, unix.SIGUSR1) // is sent after them, and arrives
	r.log.eventually(t, "msg=state ")
	assert.Equal(t, status.Running, r.status(t).State)
	r.signal(t, unix.SIGTERM)
	r.end(t)
}

func TestUSR1WritesTheStateToTheLog(t *testing.T) {
	cfg := configIn(shortDir(t))
	cfg.Upstreams[0].Servers = append(cfg.Upstreams[0].Servers, echo(t))
	r := serving(t, cfg)
	r.eventually(t, status.Running)
	r.signal(t, unix.SIGUSR1)
	r.log.eventually(t, "msg=state state=running generation=1 holder=none active=0 kept=0 unkept=0 restored=0 lost=0 accepted=0 failed=0 bytes_in=0 bytes_out=0\n")
	text := r.log.String()
	socket := r.status(t).Listeners.Sockets[0].Socket
	assert.Contains(t, text, `msg="state of a socket" socket="`+socket+`" listener=web state=active origin=bind connections=0 accepted=0 paused=false`)
	for _, server := range cfg.Upstreams[0].Servers {
		assert.Contains(t, text, `msg="state of a server" upstream=app server=`+server.String()+` healthy=true connections=0 error=""`)
	}
	r.signal(t, unix.SIGTERM)
	r.end(t)
}

func TestSignalsBeyondWhatAnybodyNeedsAreDropped(t *testing.T) {
	s := catchSignals()
	for range 10 {
		s.in <- unix.SIGUSR1
		s.in <- unix.SIGTERM
	}
	s.release() // nobody has received one, and it ends
	assert.Len(t, s.stop, 2)
	assert.Len(t, s.dump, 1)
	assert.Error(t, s.until.Err())
}
