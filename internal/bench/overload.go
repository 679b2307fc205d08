package bench

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// peakConnections is how many connections are busy when the peak is measured.
const peakConnections = 64

// Overload is a load of twice the throughput that a target reached at its peak. What
// it refused with 503 is not wrong.
type Overload struct {
	Target          string  `json:"target"`
	PeakPerSecond   float64 `json:"peak_requests_per_second"`
	SentPerSecond   int     `json:"due_requests_per_second"`
	AnswerPerSecond float64 `json:"answered_requests_per_second"`
	RefusePerSecond float64 `json:"refused_requests_per_second"`
	// Goodput is the answered part of the peak.
	Goodput float64 `json:"goodput_of_peak"`
}

// dialling is how long the lanes of a flood take to connect, one after the other, before
// the first request is due.
const dialling = time.Second

// overload sends every target twice what it can answer.
func (r *run) overload(ctx context.Context) error {
	for _, t := range r.targets {
		if !slices.Contains([]string{Modelgate, ReverseProxy}, t.name) {
			continue
		}
		peak, err := r.closedLoop(ctx, t, &r.sample, peakConnections, r.Scale.Load)
		if err != nil {
			return err
		}
		o, err := r.floodWith(ctx, t, max(int(2*peak.perSecond), 8))
		if err != nil {
			return err
		}
		o.PeakPerSecond, o.Goodput = round(peak.perSecond, 0), round(o.AnswerPerSecond/peak.perSecond, 2)
		r.report.Overload = append(r.report.Overload, o)
		r.progressf("  %s: %.0f/s of %.0f/s at twice the load, %.0f/s refused", t.name, o.AnswerPerSecond, o.PeakPerSecond, o.RefusePerSecond)
	}
	return nil
}

// floodWith sends rate requests per second.
func (r *run) floodWith(ctx context.Context, t *target, rate int) (Overload, error) {
	f := &flood{run: r, target: t, schedule: newSchedule(time.Now().Add(dialling), rate, r.Scale.RateTime+warmUp)}
	f.counted = f.schedule.start.Add(warmUp)
	f.end = f.counted.Add(r.Scale.RateTime)
	var running sync.WaitGroup
	for lane := range f.lanes {
		running.Go(func() { f.lane(ctx, lane) })
	}
	running.Wait()
	seconds := r.Scale.RateTime.Seconds()
	return Overload{
		Target: t.name, SentPerSecond: rate,
		AnswerPerSecond: round(float64(f.answered.Load())/seconds, 0), RefusePerSecond: round(float64(f.refused.Load())/seconds, 0),
	}, ctx.Err()
}

// flood is a load that goes on whatever is answered.
type flood struct {
	*run
	target *target
	schedule
	counted, end      time.Time // answers between these times count
	answered, refused atomic.Int64
}

// lane sends the requests of one lane until the end.
func (f *flood) lane(ctx context.Context, lane int) {
	c := f.connect(ctx, lane)
	defer func() {
		if c != nil {
			c.Close()
		}
	}()
	for turn := 0; ; turn++ {
		due, more := f.due(lane, turn)
		if !more || time.Now().After(f.end) || pause(ctx, time.Until(due)) != nil {
			return
		}
		if c == nil {
			var err error
			if c, err = dial(ctx, f.target.addr); err != nil {
				f.report.faults(f.target.name).add(err)
				continue
			}
		}
		if !f.ask(c) {
			c.Close()
			c = nil
		}
	}
}

// connect connects a lane before its first request is due, and sends one, since a
// gateway accepts few connections without a key. It returns nil if that fails.
func (f *flood) connect(ctx context.Context, lane int) *conn {
	turn := f.schedule.start.Add(-dialling + dialling*time.Duration(lane)/time.Duration(f.lanes))
	if pause(ctx, time.Until(turn)) != nil {
		return nil
	}
	c, err := dial(ctx, f.target.addr)
	if err != nil {
		f.report.faults(f.target.name).add(err)
		return nil
	}
	if !f.ask(c) {
		c.Close()
		return nil
	}
	return c
}

// ask sends one request on c and counts its answer. It reports whether c can be used
// again.
func (f *flood) ask(c *conn) bool {
	err := f.sample.askOn(c)
	now := time.Now()
	within := !now.Before(f.counted) && now.Before(f.end)
	switch {
	case err == nil:
		if within {
			f.answered.Add(1)
		}
	case c.answer.status == http.StatusServiceUnavailable:
		if within {
			f.refused.Add(1)
		}
	default:
		f.report.faults(f.target.name).add(err)
		return false
	}
	return true
}
