package vmtest

import (
	"strings"

	"github.com/holdfast-proxy/holdfast/vmtest/wire"
)

// Call calls each address once, all at once. It returns what went wrong, a line for
// each that was not answered; "" = nothing.
func (g *Guest) Call(addresses ...string) string {
	g.t.Helper()
	r := g.Try(append([]string{wire.Program, "call"}, addresses...)...)
	return strings.TrimSpace(string(r.Stderr))
}
