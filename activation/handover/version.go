package handover

import (
	"fmt"
	"slices"
)

// Each release speaks the protocol of the one before it, too. So the number goes up
// by one at most from release to release, and only for what a feature cannot say.
const (
	protocol       = 1 // the highest that is spoken here
	oldestProtocol = 1
)

// featureHandoverSocket means that the handover socket itself is passed, with the
// answer to ShutdownOriginalNode. Clients of it that come meanwhile wait in its
// queue, and there is no moment in which nobody is to be found at the path.
const featureHandoverSocket = "handover_socket"

// featureConnections means that established connections go over: SendConnections.
const featureConnections = "connections"

var features = []string{featureHandoverSocket, featureConnections}

// negotiate gives the protocol that two sides speak when one speaks oldest to own,
// and the other up to theirs.
func negotiate(own, oldest, theirs int) (int, error) {
	if theirs < oldest {
		return 0, fmt.Errorf("it speaks handover protocol %d, this version %d to %d", theirs, oldest, own)
	}
	return min(own, theirs), nil
}

// both are the features that this version has, too, in our order.
func both(theirs []string) []string {
	return slices.DeleteFunc(slices.Clone(features), func(f string) bool { return !slices.Contains(theirs, f) })
}
