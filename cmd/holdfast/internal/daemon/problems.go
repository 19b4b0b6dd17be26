package daemon

import (
	"errors"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/pidfd"
	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/control"
)

// severalError is several things that are wrong, at least one.
type severalError []error

// Error has a line for each.
func (e severalError) Error() string { return errors.Join(e...).Error() }

// Unwrap lets errors.Is and errors.As look at each.
func (e severalError) Unwrap() []error { return e }

// Problems is what is wrong with a configuration, or in the way of serving it, each
// with what to do about it where that is known. For nil it is empty.
func Problems(err error) []control.Problem {
	var several severalError
	var bad *config.Error
	var sockets activation.AcquireError
	var socket *activation.ListenerError
	var own *AskError
	var full *fdstore.FullError
	var adopt *AdoptError
	var rights *pidfd.RightsError
	var problems []control.Problem
	switch {
	case err == nil:
	case errors.As(err, &several):
		for _, one := range several {
			problems = append(problems, Problems(one)...)
		}
	case errors.As(err, &bad):
		for _, p := range bad.Problems {
			hint := p.Hint
			p.Hint = "" // it gets a line of its own
			problems = append(problems, control.Problem{Error: p.String(), Hint: hint})
		}
	case errors.As(err, &sockets):
		for _, s := range sockets {
			problems = append(problems, control.Problem{Error: s.Error(), Hint: s.Hint()})
		}
	case errors.As(err, &socket):
		problems = append(problems, control.Problem{Error: socket.Error(), Hint: socket.Hint()})
	case errors.As(err, &own):
		problems = append(problems, control.Problem{Error: own.Error(), Hint: own.Hint})
	case errors.As(err, &full):
		problems = append(problems, control.Problem{Error: err.Error(), Hint: full.Hint()})
	case errors.As(err, &adopt):
		problems = append(problems, control.Problem{Error: adopt.Error(), Hint: adopt.Hint})
	case errors.As(err, &rights):
		problems = append(problems, control.Problem{Error: err.Error(), Hint: rights.Hint()})
	default:
		problems = append(problems, control.Problem{Error: err.Error()})
	}
	return problems
}

// appendError appends what is an error.
func appendError(all severalError, err error) severalError {
	if err != nil {
		all = append(all, err)
	}
	return all
}

// refused notes why the configuration, as it is now, is not in service.
func (d *daemon) refused(err error) {
	d.refusal = err
	d.logProblems("configuration refused", err)
	d.showProblems()
}

// showProblems has status show why the configuration is not in service, or what of the
// one that is cannot be had.
func (d *daemon) showProblems() {
	all := appendError(nil, d.refusal)
	if len(d.current.missing) > 0 {
		all = append(all, d.current.missing)
	}
	all = appendError(all, d.unasked)
	reason := ""
	if len(all) > 0 {
		reason = all.Error()
	}
	d.engine.Refused(reason)
}

func (d *daemon) logProblems(what string, err error) {
	for _, p := range Problems(err) {
		attrs := []any{"generation", d.current.number}
		if p.Hint != "" {
			attrs = append(attrs, "hint", p.Hint)
		}
		d.log.Error(what+": "+p.Error, attrs...)
	}
}
