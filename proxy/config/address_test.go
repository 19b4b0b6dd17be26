package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseAddress(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("x", maxUnixPath)
	for text, want := range map[string]Address{
		"tcp://127.0.0.1:6380":            {Network: "tcp", Host: "127.0.0.1", Port: 6380},
		"tcp://:80":                       {Network: "tcp", Port: 80},
		"tcp://:0":                        {Network: "tcp"},
		"tcp://[::1]:65535":               {Network: "tcp", Host: "::1", Port: 65535},
		"tcp://[0:0::1]:1":                {Network: "tcp", Host: "::1", Port: 1},
		"tcp://[::ffff:192.0.2.1]:1":      {Network: "tcp", Host: "192.0.2.1", Port: 1},
		"tcp://[fe80::1%eth0]:1":          {Network: "tcp", Host: "fe80::1%eth0", Port: 1},
		"tcp://db-1.internal.:5432":       {Network: "tcp", Host: "db-1.internal.", Port: 5432},
		"tcp://My_DB:5432":                {Network: "tcp", Host: "my_db", Port: 5432},
		"udp://:53":                       {Network: "udp", Port: 53},
		"udp://[0:0::1]:53":               {Network: "udp", Host: "::1", Port: 53},
		"127.0.0.1:9000":                  {Network: "tcp", Host: "127.0.0.1", Port: 9000},
		"localhost:9000":                  {Network: "tcp", Host: "localhost", Port: 9000},
		":9000":                           {Network: "tcp", Port: 9000},
		"unix:///run/x.sock":              {Network: "unix", Path: "/run/x.sock"},
		"unix:///run/with space,é":        {Network: "unix", Path: "/run/with space,é"},
		"unix://@abstract":                {Network: "unix", Path: "@abstract"},
		"unix:///" + longest[1:]:          {Network: "unix", Path: "/" + longest[1:]},
		"unix://@" + longest:              {Network: "unix", Path: "@" + longest},
		"tcp://" + label63 + ".example:1": {Network: "tcp", Host: label63 + ".example", Port: 1},
	} {
		a, err := ParseAddress(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, a, text)
	}
}

const label63 = "abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz-012345678"

func TestParseAddressRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxUnixPath+1)
	for text, want := range map[string]string{
		"":                          `"": missing port in address (write tcp://HOST:PORT or unix:///PATH)`,
		"tcp://":                    "missing port in address",
		"tcp://127.0.0.1":           "missing port in address",
		"tcp://::1:80":              "too many colons in address",
		"tcp://h:":                  `port "" is not a number`,
		"tcp://h:http":              `port "http" is not a number`,
		"tcp://h:-1":                `port "-1" is not a number`,
		"tcp://h:+1":                `port "+1" is not a number`,
		"tcp://h:80/path":           `port "80/path" is not a number`,
		"tcp://h:65536":             `port "65536" is above 65535`,
		"tcp://h:99999999999999999": `port "99999999999999999" is above 65535`,
		"tcp://256.0.0.1:1":         `"256.0.0.1" is not a valid IPv4 address`,
		"tcp://1.2.3:1":             `"1.2.3" is not a valid IPv4 address`,
		"tcp://*:80":                `leave the host out for every address: tcp://:PORT`,
		"tcp://a b:80":              "neither an IP address nor a DNS name",
		"tcp://-a:80":               "neither an IP address nor a DNS name",
		"tcp://a..b:80":             "neither an IP address nor a DNS name",
		"tcp://user@h:80":           "neither an IP address nor a DNS name",
		"tcp://x" + label63 + ":1":  "neither an IP address nor a DNS name",
		"udp://127.0.0.1":           "missing port in address (write udp://HOST:PORT)",
		"udp://h:dns":               `port "dns" is not a number (write udp://HOST:PORT)`,
		"udp://*:53":                "leave the host out for every address: udp://:PORT",
		"http://h:80":               `unknown scheme "http" (write tcp://HOST:PORT or unix:///PATH)`,
		"TCP://h:80":                `unknown scheme "TCP"`,
		"/run/x.sock":               `"/run/x.sock" has no scheme (write "unix:///run/x.sock")`,
		"@x":                        `"@x" has no scheme (write "unix://@x")`,
		"unix:/run/x.sock":          `port "/run/x.sock" is not a number (write tcp://HOST:PORT or unix:///PATH)`,
		"unix://":                   "the path of the unix socket is empty",
		"unix://@":                  "the path of the unix socket is empty",
		"unix://run/x.sock":         `the path "run/x.sock" of the unix socket is relative`,
		"unix:///":                  "names a directory",
		"unix:///run/":              "names a directory",
		"unix:///run//x":            "not in its shortest form",
		"unix:///run/../x":          "not in its shortest form",
		"unix:///" + long[1:]:       "has 108 bytes, the kernel takes 107",
		"unix://@" + long:           "has 108 bytes, the kernel takes 107",
		"tcp://h\n:80":              "control characters",
		"unix:///run/\x00":          "control characters",
		"unix:///run/\xff":          "not UTF-8",
	} {
		a, err := ParseAddress(text)
		require.Error(t, err, text)
		assert.Contains(t, err.Error(), want, text)
		assert.Equal(t, Address{}, a, text)
	}
}

func TestListenersNeedAddressesOfTheirOwn(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"tcp://:0":            "",
		"tcp://[::]:80":       "",
		"udp://:53":           "",
		"unix://@x":           "",
		"tcp://localhost:80":  "may stand for several addresses",
		"udp://localhost:53":  "udp://:PORT for every address",
		"tcp://db.internal:1": "may stand for several addresses",
	} {
		_, err := parseListen(text)
		checkRefused(t, text, want, err)
	}
}

func TestServersNeedAPlaceToConnectTo(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"db.internal:1":    "",
		"unix://@x":        "",
		"tcp://:80":        "names no host to connect to",
		"tcp://0.0.0.0:80": "names no host to connect to",
		"tcp://[::]:80":    "names no host to connect to",
		"tcp://h:0":        "nothing can be reached at port 0",
		"udp://h:53":       "udp is not supported yet",
	} {
		_, err := parseServer(text)
		checkRefused(t, text, want, err)
	}
}

func TestMetricsAreServedOverTCPOnly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                    "",
		"tcp://127.0.0.1:0":   "",
		"unix:///run/m.sock":  "metrics are served over TCP only (write tcp://HOST:PORT)",
		"unix://@m":           "metrics are served over TCP only",
		"udp://127.0.0.1:1":   "metrics are served over TCP only",
		"tcp://localhost:117": "may stand for several addresses",
	} {
		_, err := parseMetrics(text)
		checkRefused(t, text, want, err)
	}
}

func TestOwnSocketsAreFiles(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"/run/x.sock":        "",
		"":                   "is empty",
		"x.sock":             "is relative",
		"@x":                 "has no owner and no mode",
		"unix:///run/x.sock": `a path is expected here, not an address (write "/run/x.sock")`,
	} {
		_, err := parseSocketPath(text)
		checkRefused(t, text, want, err)
	}
}

func TestParseNetwork(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"10.0.0.0/8":          "10.0.0.0/8",
		"10.1.2.3/8":          "10.0.0.0/8",
		"192.0.2.7":           "192.0.2.7/32",
		"::1":                 "::1/128",
		"2001:db8::1/32":      "2001:db8::/32",
		"::/0":                "::/0",
		"::ffff:192.0.2.7":    "192.0.2.7/32",
		"::ffff:10.1.2.3/104": "10.0.0.0/8",
		"::ffff:0.0.0.0/96":   "0.0.0.0/0",
	} {
		p, err := parseNetwork(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, p.String(), text)
	}
	for text, want := range map[string]string{
		"":                  "neither a network nor an IP address",
		"localhost":         "neither a network nor an IP address",
		"fe80::1%eth0":      "neither a network nor an IP address",
		"10.0.0.0/33":       "is not a network",
		"10.0.0/8":          "is not a network",
		"fe80::%eth0/64":    "is not a network",
		"::ffff:10.0.0.0/8": "shorter than the 96 bits",
	} {
		_, err := parseNetwork(text)
		checkRefused(t, text, want, err)
	}
}

// checkRefused wants an error that says want, or none if want is "".
func checkRefused(t *testing.T, text, want string, err error) {
	t.Helper()
	if want == "" {
		assert.NoError(t, err, text)
		return
	}
	assert.ErrorContains(t, err, want, text)
}
