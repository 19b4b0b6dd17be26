package survival

import (
	"fmt"
	"os"
	"testing"

	"github.com/holdfast-proxy/holdfast/proxy/leaktest"
)

// childVariable has the settings of the child, in JSON. The parent has it not.
const childVariable = "HOLDFAST_SURVIVAL_CHILD"

func TestMain(m *testing.M) {
	if settings := os.Getenv(childVariable); settings != "" {
		if err := runChild(settings); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leaktest.Main(m)
}
