package vmtest_test

import (
	"testing"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

func TestMain(m *testing.M) { vmtest.Main(m) }
