package main

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// callPatience is how long a call waits for each step.
const callPatience = 30 * time.Second

// runCall calls each address once, all of them at once, and fails with those that
// did not answer. An address may be given many times.
func runCall(args []string) error {
	addresses, err := parseAddresses(args)
	if err != nil {
		return err
	}
	clients := load{patience: callPatience}
	failed := make([]error, len(addresses))
	var all sync.WaitGroup
	for i, a := range addresses {
		all.Go(func() {
			if err := clients.call(a); err != nil {
				failed[i] = fmt.Errorf("%v: %w", a, err)
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}
