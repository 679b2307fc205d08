package quota

import (
	"context"
	"slices"
	"sync"
)

// corrections sends the corrections of a process to a shared store. It guarantees that what
// was settled is deducted once, although a call that failed may have been executed: a failed
// batch is sent again with its number before anything else, and the store executes a number
// once.
type corrections struct {
	// Send sends a batch. The store must not execute it if it has executed a batch of this
	// process with the same or a later number.
	Send func(ctx context.Context, number int64, list []Correction) error

	mu       sync.Mutex
	number   int64            // of the last batch; guarded by mu
	doubtful []Correction     // the last batch, if it failed; guarded by mu
	deducted map[string]int64 // by counter, what callers do not know to be deducted; guarded by mu
}

// Correct implements [Store].
func (c *corrections) Correct(ctx context.Context, list []Correction) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.doubtful != nil {
		if err := c.Send(ctx, c.number, c.doubtful); err != nil {
			return err
		}
		for _, k := range c.doubtful {
			if k.Settled > 0 {
				c.deducted[k.Counter] += k.Settled
			}
		}
		c.doubtful = nil
	}
	rest := slices.Clone(list)
	for i := range rest {
		rest[i].Settled -= min(c.deducted[rest[i].Counter], rest[i].Settled)
	}
	c.number++
	if err := c.Send(ctx, c.number, rest); err != nil {
		c.doubtful = rest
		if c.deducted == nil {
			c.deducted = make(map[string]int64)
		}
		return err
	}
	for _, k := range list {
		if k.Settled > 0 {
			delete(c.deducted, k.Counter)
		}
	}
	return nil
}
