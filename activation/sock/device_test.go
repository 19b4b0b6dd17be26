package sock_test

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

func TestClassifyTellsTheDevice(t *testing.T) {
	onLoopback := func(fd int) error { return unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "lo") }
	onNoInterface := func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, 1<<30) }
	anyLinkLocal := func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1) }
	linkLocal := &unix.SockaddrInet6{Addr: [16]byte{0: 0xfe, 1: 0x80, 15: 1}, ZoneId: 1}

	for _, tt := range []struct {
		name           string
		fd             *sock.FD
		device, suffix string
	}{
		{"none", makeSocket(t, unix.AF_INET, unix.SOCK_STREAM, 0, &unix.SockaddrInet4{}), "", ""},
		{"loopback", makeSocket(t, unix.AF_INET, unix.SOCK_STREAM, 0, &unix.SockaddrInet4{}, onLoopback), "lo", "%lo"},
		{"UDP, IPv6", makeSocket(t, unix.AF_INET6, unix.SOCK_DGRAM, 0, &unix.SockaddrInet6{}, onLoopback), "lo", "%lo"},
		{"gone", makeSocket(t, unix.AF_INET, unix.SOCK_STREAM, 0, &unix.SockaddrInet4{}, onNoInterface), "1073741824", "%1073741824"},
		// Every link-local address has its interface: the zone says it already.
		{"zone", makeSocket(t, unix.AF_INET6, unix.SOCK_STREAM, 0, linkLocal, anyLinkLocal), "", ""},
		{"Unix", makeSocket(t, unix.AF_UNIX, unix.SOCK_STREAM, 0, nil), "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := mustClassify(t, tt.fd)
			assert.Equal(t, tt.device, i.Device)
			assert.Equal(t, i.Addr.String()+tt.suffix, i.String())
			assert.False(t, i.Retired)
			assert.False(t, i.OtherNetNS)
		})
	}
}

func init() {
	children["look at inherited sockets"] = func() int {
		for fd := 4; fd < 7; fd++ {
			i, err := sock.Classify(fd)
			if err != nil {
				fmt.Print(err)
				return 1
			}
			fmt.Println(i.OtherNetNS, i)
		}
		return 0
	}
}

// The child lives in a network name space of its own.
func TestClassifyTellsASocketOfAnotherNetworkNameSpace(t *testing.T) {
	ip, abstract, path := mustListen(t, tcp("127.0.0.1:0"), sock.Options{}), "@"+socketPath(t), socketPath(t)
	exe, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	files := []*os.File{exe}
	for _, l := range []*sock.Listener{
		ip, mustListen(t, sock.Unix(abstract), sock.Options{}), mustListen(t, sock.Unix(path), sock.Options{}),
	} {
		raw, err := unix.FcntlInt(uintptr(l.FD.Raw()), unix.F_DUPFD_CLOEXEC, 0)
		require.NoError(t, err)
		files = append(files, os.NewFile(uintptr(raw), "socket"))
	}
	cmd := exec.Command("/proc/self/fd/3")
	cmd.ExtraFiles = files
	cmd.Env = append(os.Environ(), "SOCK_TEST_CHILD=look at inherited sockets", "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET}
	out, err := cmd.Output()
	for _, f := range files {
		require.NoError(t, f.Close())
	}
	if os.IsPermission(err) {
		t.Skip("name spaces are not for this user: ", err)
	}
	require.NoError(t, err, "%s", out)
	assert.Equal(t, "true "+ip.Addr().String()+" in another network name space\n"+
		"true unix "+abstract+" in another network name space\n"+
		"false unix "+path+"\n", string(out), "paths are of the file system")
}
