package daemon

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRemovalsAtOnceAreFewRequests(t *testing.T) {
	const most = 1000
	var r removals
	var requests [][]string
	asked, goOn := make(chan struct{}), make(chan struct{})
	request := func(names ...string) error {
		if requests = append(requests, slices.Clone(names)); len(requests) == 1 {
			close(asked)
			<-goOn
		}
		return nil
	}
	var all sync.WaitGroup
	all.Go(func() { assert.NoError(t, r.add("first", request)) })
	<-asked
	for i := range most {
		all.Go(func() { assert.NoError(t, r.add(strconv.Itoa(i), request)) })
	}
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.next != nil && len(r.next.names) == most
	}, patience, time.Millisecond)
	close(goOn)
	all.Wait()
	require.Len(t, requests, 2)
	assert.Len(t, requests[1], most)
	assert.Nil(t, r.next)
}

func TestARemovalThatFailsFailsForAllWhoAskedAndForNobodyElse(t *testing.T) {
	var r removals
	failure := errors.New("the holder is gone")
	require.ErrorIs(t, r.add("a", func(...string) error { return failure }), failure)
	require.NoError(t, r.add("b", func(names ...string) error {
		assert.Equal(t, []string{"b"}, names)
		return nil
	}))
}
