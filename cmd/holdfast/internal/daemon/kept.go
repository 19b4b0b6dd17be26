package daemon

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// keptFormat is the version of what is kept. A process reads what one of another
// version has kept as far as this number is the same.
const keptFormat = 1

// mostKept bounds what is read back, in bytes: a few of the largest configurations.
const mostKept = 64 << 20

// mostGenerations is a number that no instance reaches, and from which one can count on.
const mostGenerations = 1 << 62

// stateKind is the first part of the name under which a kept is in the store; the
// second is the number of the generation.
const stateKind = "state/"

// kept is what a start must know of the instance before it: the configuration in
// service, and those before it whose sockets still had clients in their queues.
type kept struct {
	Format  int              `json:"format"`
	Current keptGeneration   `json:"current"`
	Older   []keptGeneration `json:"older,omitempty"` // the newest first
}

// keptGeneration is one configuration, as what it was made from.
type keptGeneration struct {
	Number uint64        `json:"number"`
	Inputs config.Inputs `json:"inputs"`
}

func stateName(generation uint64) string { return stateKind + strconv.FormatUint(generation, 10) }

// isState tells the names that stateName makes.
func isState(name string) bool { return strings.HasPrefix(name, stateKind) }

func (k kept) encode() ([]byte, error) { return json.Marshal(k) }

// decodeKept reads what encode made.
func decodeKept(data []byte) (kept, error) {
	var k kept
	if err := json.Unmarshal(data, &k); err != nil {
		return kept{}, fmt.Errorf("not a kept configuration: %w", err)
	}
	return k, k.check()
}

// check tells whether this version can go on with it.
func (k kept) check() error {
	if k.Format != keptFormat {
		return fmt.Errorf("a kept configuration of format %d, this version reads %d", k.Format, keptFormat)
	}
	if k.Current.Number == 0 || k.Current.Number > mostGenerations {
		return fmt.Errorf("a kept configuration with the number %d", k.Current.Number)
	}
	return nil
}

// generations are all that are kept, the newest first.
func (k kept) generations() []keptGeneration {
	if k.Current.Number == 0 {
		return nil
	}
	return append([]keptGeneration{k.Current}, k.Older...)
}
