package activation_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/handover"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// replaced is what a replacement of an instance with these sockets gets.
func replaced(t *testing.T, held ...activation.Socket) (received []handover.Received) {
	t.Helper()
	for _, s := range held {
		lent := activation.ToHandover(s)
		assert.Equal(t, s.FD.Raw(), lent.FD)
		received = append(received, handover.Received{Label: lent.Label, FD: dup(t, activation.Offer{FD: s.FD}, "").FD})
	}
	return received
}

func TestAReplacementHasTheSocketsOfItsOriginal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	own, file := holdBound(t, anyPort), holdBound(t, sock.Unix(path))
	own.Name = "its name in an earlier life"
	unit := mustAcquire(t, []activation.Want{{Name: "web"}}, systemd(t, offer(t, "web", anyPort))).Listeners[0].Sockets[0]
	control := handover.Received{Label: handover.Label{Name: "control/unix", Origin: "systemd"}}

	units, ours, others := activation.FromHandover(append(replaced(t, own, file, unit), control))
	assert.Equal(t, []handover.Received{control}, others)
	r := mustAcquire(t, []activation.Want{{Name: "web"}, want("moved", own.Addr()), want("file", file.Addr())}, units, ours)
	assert.Equal(t, []string{"systemd " + unit.Addr().String()}, sockets(r.Listeners[0]), "by the name of the unit")
	assert.Equal(t, []string{"handover " + own.Addr().String()}, sockets(r.Listeners[1]))
	assert.Equal(t, []string{"handover unix " + path}, sockets(r.Listeners[2]))
	assert.Equal(t, file.StoreName(), r.Listeners[2].Sockets[0].StoreName(), "with its file")
}

func TestAReplacementThatGivesUpLeavesTheFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	_, ours, _ := activation.FromHandover(replaced(t, holdBound(t, sock.Unix(path))))
	r := mustAcquire(t, []activation.Want{want("file", sock.Unix(path))}, ours)
	assert.NoError(t, r.Close())
	assert.FileExists(t, path)
}
