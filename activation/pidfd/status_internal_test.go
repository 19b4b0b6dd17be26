package pidfd

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// As Linux 6.18 gives it of an nginx worker that may bind port 80, without the lines
// about memory.
const workerStatus = `Name:	nginx
Umask:	0022
State:	S (sleeping)
Tgid:	3120
Ngid:	0
Pid:	3120
PPid:	3119
TracerPid:	0
Uid:	33	33	33	33
Gid:	34	35	36	37
FDSize:	64
Groups:	33 
NStgid:	3120
Threads:	1
SigQ:	1/31421
CapInh:	0000000000000400
CapPrm:	0000000000000c00
CapEff:	0000000000000400
CapBnd:	000001ffffffffff
CapAmb:	0000000000000400
NoNewPrivs:	0
Seccomp:	0
`

func TestParseStatus(t *testing.T) {
	s, ok := parseStatus([]byte(workerStatus))
	assert.True(t, ok)
	assert.Equal(t, status{parent: 3119, uids: ids{33, 33, 33}, gids: ids{34, 35, 36}, permitted: 0xc00, effective: 0x400}, s)

	own, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	s, ok = parseStatus(own)
	assert.True(t, ok)
	assert.Equal(t, ids{os.Getuid(), os.Geteuid(), s.uids[2]}, s.uids)
}

func TestParseStatusOfSomethingElse(t *testing.T) {
	for name, text := range map[string]string{
		"empty":             "",
		"no capabilities":   "State:\tS (sleeping)\nUid:\t1\t1\t1\t1\nGid:\t1\t1\t1\t1\n",
		"two users":         "State:\tS\nUid:\t1\t1\nGid:\t1\t1\t1\nCapPrm:\t0\nCapEff:\t0\n",
		"a name for a user": "State:\tS\nUid:\ta\tb\tc\nGid:\t1\t1\t1\nCapPrm:\t0\nCapEff:\t0\n",
		"no hex":            "State:\tS\nUid:\t1\t1\t1\nGid:\t1\t1\t1\nCapPrm:\tx\nCapEff:\t0\n",
		"no values":         "State:\nUid:\nGid:\nCapPrm:\nCapEff:\n",
	} {
		_, ok := parseStatus([]byte(text))
		assert.False(t, ok, name)
	}
}

func FuzzParseStatus(f *testing.F) {
	f.Add([]byte(workerStatus))
	f.Add([]byte("State:\tZ (zombie)\nUid:\t0\t0\t0\t0\n"))
	f.Add([]byte("Uid:\t-1\t99999999999999999999\nCapPrm:\t-1\n:\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, ok := parseStatus(text); !ok {
			assert.Zero(t, s, "half of it")
		}
	})
}
