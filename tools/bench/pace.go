package bench

import (
	"context"
	"sync"
	"time"
)

// schedule is when the requests of an open loop are due: one every interval,
// dealt out to lanes in turn. What is due does not wait for what was sent: a
// target that stalls pays for every request that fell due in the meantime.
type schedule struct {
	start    time.Time
	interval time.Duration
	count    int
	lanes    int
}

// newSchedule spreads rate requests per second over length. There are lanes
// enough that one is free though every response takes a quarter of a second.
func newSchedule(start time.Time, rate int, length time.Duration) schedule {
	return schedule{
		start:    start,
		interval: time.Second / time.Duration(rate),
		count:    int(length * time.Duration(rate) / time.Second),
		lanes:    max(rate/4, 1),
	}
}

// due returns when the turn-th request of a lane has to be sent, and false
// when the lane has no more.
func (s schedule) due(lane, turn int) (time.Time, bool) {
	i := turn*s.lanes + lane
	return s.start.Add(time.Duration(i) * s.interval), i < s.count
}

// latency measures every target at every fixed rate.
func (r *run) latency(ctx context.Context) error {
	for _, rate := range r.Scale.Rates {
		for _, t := range r.targets {
			times, err := r.openLoop(ctx, t, rate)
			if err != nil {
				return err
			}
			r.report.addChangesncy(t.name, rate, times)
			r.progressf("  %d/s, %s: p50 %s, p99 %s", rate, t.name, times.quantile(0.5), times.quantile(0.99))
		}
	}
	return nil
}

// openLoop sends requests when they are due and returns how long after that
// each was answered. What is due within warmUp is not counted.
func (r *run) openLoop(ctx context.Context, t *target, rate int) (samples, error) {
	s := newSchedule(time.Now().Add(100*time.Millisecond), rate, r.Scale.RateTime+warmUp)
	var (
		mu      sync.Mutex
		times   samples
		running sync.WaitGroup
	)
	for lane := range s.lanes {
		running.Go(func() {
			mine := r.lane(ctx, t, s, lane)
			mu.Lock()
			defer mu.Unlock()
			times = append(times, mine...)
		})
	}
	running.Wait()
	return times, ctx.Err()
}

// lane sends the requests of one lane on one connection, and on a further one
// after each that went wrong.
func (r *run) lane(ctx context.Context, t *target, s schedule, lane int) (times samples) {
	var c *conn
	counted := s.start.Add(warmUp)
	for turn := 0; ; turn++ {
		due, more := s.due(lane, turn)
		if !more || pause(ctx, time.Until(due)) != nil {
			break
		}
		var err error
		if c, err = r.sample.askAgain(ctx, c, t.addr); err != nil {
			r.report.faults(t.name).add(err)
			continue
		}
		if !due.Before(counted) {
			times = append(times, time.Since(due))
		}
	}
	if c != nil {
		c.Close()
	}
	return times
}
