package pidfd

import "strings"

// RightsError means that the kernel does not let this process take descriptors of
// the other one. It says what is missing, and [RightsError.Hint] what would do.
type RightsError struct {
	Process string   // "process 12 (nginx)"
	Reasons []Reason // all that is in the way, as far as it can be seen; never empty
	Err     error    // the errno, EPERM mostly

	facts facts
}

// Error is like "take descriptors of process 12 (nginx): it runs as user 33
// (www-data) and this process as user 1000 (me)".
func (e *RightsError) Error() string {
	texts := make([]string, len(e.Reasons))
	for i, r := range e.Reasons {
		texts[i] = r.text(e.facts)
	}
	return "take descriptors of " + e.Process + ": " + strings.Join(texts, "; ")
}

func (e *RightsError) Unwrap() error {
	return e.Err
}

// Hint says what a person can do about it.
func (e *RightsError) Hint() string {
	for _, r := range e.Reasons {
		if hint := r.onlyWay(e.facts); hint != "" {
			return hint
		}
	}
	hint := "run as root, or with CAP_SYS_PTRACE"
	if e.facts.own.uids[0] == 0 { // root in a container
		hint = "root has no CAP_SYS_PTRACE here: docker run --cap-add SYS_PTRACE, or CapabilityBoundingSet= of the unit"
	}
	if others := e.otherWays(); len(others) > 0 {
		hint += "; or else " + strings.Join(others, ", and ")
	}
	return hint
}

// otherWays are what has to be done together where CAP_SYS_PTRACE is not to be had;
// none if something is in the way that only the capability helps against.
func (e *RightsError) otherWays() []string {
	var ways []string
	for _, r := range e.Reasons {
		way := r.otherWay(e.facts)
		if way == "" {
			return nil
		}
		ways = append(ways, way)
	}
	return ways
}

// rightsError finds out why the kernel has refused. Nothing of that decides
// anything: it is for the text.
func (p *Process) rightsError(err error) error {
	f := p.gatherFacts(err)
	return &RightsError{Process: p.String(), Reasons: f.reasons(), Err: err, facts: f}
}
