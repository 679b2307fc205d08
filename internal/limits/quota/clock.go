package quota

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// MaxSkew is the largest accepted difference between the clock of a gateway and
// that of its shared store.
const MaxSkew = 2 * time.Second

// Clock relates the clock of this process to that of a shared store. The zero
// value assumes that they agree.
type Clock struct {
	Logger *slog.Logger // nil is silent

	ahead atomic.Int64 // of the store, in nanoseconds
	wrong atomic.Bool
}

// Observe records the store's time, which it returned between two times of this
// process.
func (c *Clock) Observe(sent, received, store time.Time) {
	took := received.Sub(sent)
	ahead := store.Sub(sent) - took/2
	if took > MaxSkew/2 { // says too little
		return
	}
	c.ahead.Store(int64(ahead))
	wrong := ahead.Abs() > MaxSkew
	if c.wrong.Swap(wrong) != wrong && c.Logger != nil {
		if wrong {
			c.Logger.Warn("clock differs from the store of limit counters by more than 2s; using the store's time", "store_ahead", ahead.String())
		} else {
			c.Logger.Info("clock agrees with the store of limit counters", "store_ahead", ahead.String())
		}
	}
}

// Adjust returns now, or the store's time if the clocks differ too much.
func (c *Clock) Adjust(now time.Time) time.Time {
	if !c.wrong.Load() {
		return now
	}
	return c.Store(now)
}

// Store returns the store's time at a time of this process.
func (c *Clock) Store(now time.Time) time.Time { return now.Add(time.Duration(c.ahead.Load())) }
