package integration

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// tlsSession runs TLS end to end through the proxy: a dialogue between OpenSSL's
// client and server, and HTTPS.
func tlsSession(t *testing.T) traffic {
	dir := testbed.Dir(t)
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	openssl := testbed.Command(t, "openssl")
	testbed.Run(t, testbed.Program{Path: openssl, Args: []string{
		"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
		"-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert,
	}})

	reverser := testbed.TCP(t)
	testbed.Start(t, testbed.Program{Path: openssl, Args: []string{
		"s_server", "-accept", testbed.HostPort(reverser), "-cert", cert, "-key", key, "-rev",
	}})
	files, web := testbed.Dir(t), testbed.TCP(t)
	big := randomFile(t, filepath.Join(files, "big"), 20<<20)
	testbed.StartNginx(t, webServer(files, "listen "+testbed.HostPort(web)+" ssl",
		"ssl_certificate "+cert+";", "ssl_certificate_key "+key+";"))
	testbed.Listening(t, web)
	testbed.Listening(t, reverser)

	dialogue := testbed.Route{Name: "tls", Listen: []string{testbed.TCP(t)}, Servers: []string{reverser}}
	https := testbed.Route{Name: "https", Listen: []string{testbed.TCP(t)}, Servers: []string{web}}
	return traffic{"TLS", []testbed.Route{dialogue, https}, func(t *testing.T, _ *testbed.Holdfast) {
		t.Run("dialogue", func(t *testing.T) {
			client := exec.Command(openssl, "s_client", "-quiet", "-verify_return_error", "-CAfile", cert,
				"-connect", testbed.HostPort(dialogue.Listen[0]))
			in, err := client.StdinPipe()
			require.NoError(t, err)
			out, err := client.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, client.Start())
			hung := time.AfterFunc(patience, func() { _ = client.Process.Kill() })
			defer hung.Stop()
			for range 100 {
				_, err := in.Write([]byte(strings.Repeat("abc", 1000) + "\n"))
				require.NoError(t, err)
				expect(t, out, strings.Repeat("cba", 1000)+"\n")
			}
			require.NoError(t, in.Close())
			require.NoError(t, client.Process.Kill()) // -quiet ignores the end of its input
			_ = client.Wait()
		})
		t.Run("HTTPS", func(t *testing.T) {
			got := filepath.Join(t.TempDir(), "got")
			curl(t, "--cacert", cert, "-o", got, "https://"+testbed.HostPort(https.Listen[0])+"/big")
			assert.Equal(t, fileHash(t, big), fileHash(t, got))
		})
	}}
}
