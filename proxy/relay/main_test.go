package relay

import (
	"testing"

	"github.com/holdfast-proxy/holdfast/proxy/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
