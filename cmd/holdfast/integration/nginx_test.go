package integration

import (
	"crypto/rand"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// nginx is asked by curl and wrk: small and large answers, an upload, one
// connection for several requests.
func nginx(t *testing.T) traffic {
	files := testbed.Dir(t)
	big := randomFile(t, filepath.Join(files, "big"), 100<<20)
	server := testbed.TCP(t)
	testbed.StartNginx(t, webServer(files, "listen "+testbed.HostPort(server)))
	testbed.Listening(t, server)

	route := testbed.Route{Name: "web", Listen: []string{testbed.TCP(t)}, Servers: []string{server}}
	url := "http://" + testbed.HostPort(route.Listen[0])
	return traffic{"nginx", []testbed.Route{route}, func(t *testing.T, _ *testbed.Holdfast) {
		t.Run("download", func(t *testing.T) {
			got := filepath.Join(t.TempDir(), "got")
			curl(t, "-o", got, url+"/big")
			assert.Equal(t, fileHash(t, big), fileHash(t, got))
		})
		t.Run("upload", func(t *testing.T) {
			curl(t, "-T", big, url+"/uploaded")
			assert.Equal(t, fileHash(t, big), fileHash(t, filepath.Join(files, "uploaded")))
		})
		t.Run("one connection, many requests", func(t *testing.T) {
			out := curl(t, "-w", " %{num_connects}\n", url+"/hello", url+"/hello", url+"/hello")
			assert.Equal(t, "hello 1\nhello 0\nhello 0\n", out)
		})
		t.Run("load", func(t *testing.T) { wrk(t, url+"/hello") })
		t.Run("load of new connections", func(t *testing.T) { wrk(t, url+"/hello", "-H", "Connection: close") })
	}}
}

// webServer is nginx's config for a site at one address: /hello, and files that
// PUT writes.
func webServer(files, listen string, more ...string) string {
	return `
error_log stderr;
events { worker_connections 4096; }
http {
    access_log off;
    client_body_temp_path body;
    client_max_body_size 0;
    keepalive_requests 1000000000;
    server {
        ` + listen + `;
        ` + strings.Join(more, "\n        ") + `
        root ` + files + `;
        dav_methods PUT;
        location = /hello { return 200 hello; }
    }
}
`
}

func curl(t *testing.T, args ...string) string {
	args = append([]string{"--silent", "--show-error", "--fail", "--max-time", "60"}, args...)
	return testbed.Run(t, testbed.Program{Path: testbed.Command(t, "curl"), Args: args})
}

func wrk(t *testing.T, url string, args ...string) {
	args = append([]string{"-t", "2", "-c", "50", "-d", strconv.Itoa(unlessShort(2, 1))}, append(args, url)...)
	out := testbed.Run(t, testbed.Program{Path: testbed.Command(t, "wrk"), Args: args})
	assert.NotContains(t, out, "Socket errors")
	assert.NotContains(t, out, "Non-2xx")
	assert.Regexp(t, `[1-9][0-9]* requests in`, out)
}

func randomFile(t *testing.T, path string, size int64) string {
	file, err := os.Create(path)
	require.NoError(t, err)
	_, err = io.CopyN(file, rand.Reader, size)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	return path
}

func fileHash(t *testing.T, path string) string {
	file, err := os.Open(path)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	n, err := io.Copy(hash, file)
	require.NoError(t, err)
	return strconv.FormatInt(n, 10) + " bytes, " + strconv.Quote(string(hash.Sum(nil)))
}
