package daemon

import "errors"

// closers is how to give back what was opened, in the order of opening.
type closers []func() error

func (c *closers) add(closeIt func() error) { *c = append(*c, closeIt) }

// close gives back what was opened last first.
func (c closers) close() error {
	var errs []error
	for i := len(c) - 1; i >= 0; i-- {
		errs = append(errs, c[i]())
	}
	return errors.Join(errs...)
}
