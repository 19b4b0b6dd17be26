package activation

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var testSelf = process{pid: 42, pidfdID: 4711}

func TestParseListen(t *testing.T) {
	for _, tt := range []struct {
		name     string
		vars     listenVariables
		want     []string
		problems []string
	}{
		{name: "one", vars: listenVariables{pid: "42", fds: "1", names: "web"}, want: []string{"web"}},
		{name: "pidfd id", vars: listenVariables{pid: "42", pidfdID: "4711", fds: "1", names: "web"}, want: []string{"web"}},
		{name: "several of one name", vars: listenVariables{pid: "42", fds: "3", names: "a:b:a"}, want: []string{"a", "b", "a"}},
		{name: "none", vars: listenVariables{pid: "42", fds: "0"}, want: []string{}},
		{name: "without names", vars: listenVariables{pid: "42", fds: "2"}, want: []string{"", ""}},
		{name: "an empty name", vars: listenVariables{pid: "42", fds: "2", names: "a:"}, want: []string{"a", ""}},
		{
			name: "too few names", vars: listenVariables{pid: "42", fds: "3", names: "a:b"},
			want: []string{"a", "b", ""}, problems: []string{"LISTEN_FDNAMES has 2 names for 3 descriptors"},
		},
		{
			name: "too many names", vars: listenVariables{pid: "42", fds: "1", names: "a:b"},
			want: []string{"a"}, problems: []string{"LISTEN_FDNAMES has 2 names for 1 descriptors"},
		},
		{
			name: "bad names", vars: listenVariables{pid: "42", fds: "3", names: "a\nb:ok:" + strings.Repeat("x", 256)},
			want: []string{"", "ok", ""}, problems: []string{`LISTEN_FDNAMES has 2 invalid names, the first is "a\nb"`},
		},
		{
			name: "not a number", vars: listenVariables{pid: "42", fds: "three"},
			problems: []string{`LISTEN_FDS="three" is not a number from 0 to 65536`},
		},
		{
			name: "negative", vars: listenVariables{pid: "42", fds: "-1"},
			problems: []string{`LISTEN_FDS="-1" is not a number from 0 to 65536`},
		},
		{
			name: "huge", vars: listenVariables{pid: "42", fds: "9223372036854775807"},
			problems: []string{`LISTEN_FDS="9223372036854775807" is not a number from 0 to 65536`},
		},
		{
			name: "garbage of any length", vars: listenVariables{pid: "42", fds: strings.Repeat("9", 100)},
			problems: []string{`LISTEN_FDS="` + strings.Repeat("9", 40) + `" is not a number from 0 to 65536`},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			names, problems, err := parseListen(tt.vars, testSelf)
			require.NoError(t, err)
			assert.Equal(t, tt.want, names)
			var texts []string
			for _, p := range problems {
				texts = append(texts, p.Error())
			}
			assert.Equal(t, tt.problems, texts)
		})
	}
}

func TestVariablesForAnotherProcessAreIgnored(t *testing.T) {
	for _, vars := range []listenVariables{
		{},
		{fds: "1", names: "web"},
		{pid: "42"},
		{pid: "43", fds: "1"},
		{pid: "0x2a", fds: "1"},
		{pid: "42", pidfdID: "4712", fds: "1"},
		{pid: "42", pidfdID: "none", fds: "1"},
	} {
		names, problems, err := parseListen(vars, testSelf)
		require.ErrorIs(t, err, errNotForUs, "%+v", vars)
		assert.Empty(t, names)
		assert.Empty(t, problems)
	}
}

func TestPidfdIDIsNotAskedForWhereTheKernelHasNone(t *testing.T) {
	names, _, err := parseListen(listenVariables{pid: "42", pidfdID: "1", fds: "1"}, process{pid: 42})
	require.NoError(t, err)
	assert.Len(t, names, 1)
}

func TestPidfdIDTellsProcessesApart(t *testing.T) {
	self := thisProcess()
	if self.pidfdID == 0 {
		t.Skip("kernel before 6.9: pidfds have no number")
	}
	assert.Equal(t, self, thisProcess())
	assert.NotEqual(t, self.pidfdID, pidfdID(1))
	assert.Zero(t, pidfdID(-1))
}

func FuzzParseListen(f *testing.F) {
	f.Add("42", "4711", "2", "web:holdfast.socket")
	f.Add("42", "", "3", "a::b")
	f.Add("42", "", "-1", "")
	f.Add("42", "", "99999999999999999999", "\x00:\xff")
	f.Add("1", "x", "1", "web")
	f.Fuzz(func(t *testing.T, pid, pidfdID, fds, joined string) {
		names, problems, err := parseListen(listenVariables{pid: pid, pidfdID: pidfdID, fds: fds, names: joined}, testSelf)
		if err != nil {
			assert.Empty(t, names)
			return
		}
		assert.LessOrEqual(t, len(names), maxListenFDs)
		assert.LessOrEqual(t, len(problems), 2)
		for _, n := range names {
			assert.True(t, validName(n))
			assert.NotContains(t, n, ":")
		}
		if len(problems) == 0 && joined != "" {
			assert.Equal(t, joined, strings.Join(names, ":"))
		}
	})
}
