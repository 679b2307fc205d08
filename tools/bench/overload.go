package bench

import (
	"context"
	"errors"
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
	Feature         string  `json:"feature"` // in use; see [Feature]
	PeakPerSecond   float64 `json:"peak_requests_per_second"`
	SentPerSecond   int     `json:"due_requests_per_second"`
	ServedPerSecond float64 `json:"answered_requests_per_second"`
	RefusePerSecond float64 `json:"refused_requests_per_second"`
	// Goodput is the answered part of the peak. It also falls if load and simulator
	// have no processor left.
	Goodput float64 `json:"goodput_of_peak"`
	// PeakCPUMicros is the target's CPU for a response at its peak, and CPUMicros at
	// twice the load, including that of refusals.
	PeakCPUMicros float64 `json:"peak_cpu_us_per_answer"`
	CPUMicros     float64 `json:"cpu_us_per_answer"`
	// GoodputByCPU is what remains of the peak if the target has as much of its
	// processor as at the peak.
	GoodputByCPU float64 `json:"goodput_of_peak_by_cpu"`
}

// dialling is how long the lanes of a flood take to connect, one after the other, before
// the first request is due.
const dialling = time.Second

// overload sends every target twice what it can answer. With regular expressions that
// contain no literal the gateway takes several times the CPU of load and simulator, which
// share a processor: only then does the gateway have more to do than they have.
func (r *run) overload(ctx context.Context) error {
	gate := r.targets[len(r.targets)-1]
	list := []contender{{name: Plain, target: gate, sample: r.sample},
		{name: SlowChecks, target: gate, sample: r.sample.with(slowConfig).withSameText()}}
	for _, t := range r.targets {
		if t.name == ReverseProxy {
			list = slices.Insert(list, 0, contender{name: Plain, target: t, sample: r.sample})
		}
	}
	for _, c := range list {
		peak, err := r.closedLoop(ctx, c.target, &c.sample, peakConnections, r.Scale.Load)
		if err != nil {
			return err
		}
		o, err := r.floodWith(ctx, &c, max(int(2*peak.perSecond), 8))
		if err != nil {
			return err
		}
		o.PeakPerSecond, o.Goodput = round(peak.perSecond, 0), round(o.ServedPerSecond/peak.perSecond, 2)
		o.PeakCPUMicros = round(peak.cpuMicros, 1)
		if o.CPUMicros > 0 {
			o.GoodputByCPU = round(peak.cpuMicros/o.CPUMicros, 2)
		}
		r.report.Overload = append(r.report.Overload, o)
		r.progressf("  %s, %s: %.0f/s of %.0f/s at twice the load, %.0f/s refused, %.1f µs CPU instead of %.1f", o.Target, o.Feature,
			o.ServedPerSecond, o.PeakPerSecond, o.RefusePerSecond, o.CPUMicros, o.PeakCPUMicros)
	}
	return nil
}

// floodWith sends rate requests per second.
func (r *run) floodWith(ctx context.Context, c *contender, rate int) (Overload, error) {
	f := &flood{run: r, contender: c, schedule: newSchedule(time.Now().Add(dialling), rate, r.Scale.RateTime+warmUp)}
	f.counted = f.schedule.start.Add(warmUp)
	f.end = f.counted.Add(r.Scale.RateTime)
	var running sync.WaitGroup
	for lane := range f.lanes {
		running.Go(func() { f.lane(ctx, lane) })
	}
	cpu, err := f.cpuMicros(ctx)
	running.Wait()
	seconds, served := r.Scale.RateTime.Seconds(), float64(f.served.Load())
	o := Overload{
		Target: c.target.name, Feature: c.name, SentPerSecond: rate,
		ServedPerSecond: round(served/seconds, 0), RefusePerSecond: round(float64(f.refused.Load())/seconds, 0),
	}
	if served > 0 {
		o.CPUMicros = round(cpu/served, 1)
	}
	return o, errors.Join(err, ctx.Err())
}

// flood is a load that is sent regardless of the responses.
type flood struct {
	*run
	*contender
	schedule
	counted, end    time.Time // answers between these times count
	served, refused atomic.Int64
}

// cpuMicros returns the CPU that the target takes while responses count.
func (f *flood) cpuMicros(ctx context.Context) (float64, error) {
	if err := pause(ctx, time.Until(f.counted)); err != nil {
		return 0, err
	}
	before, err := f.contender.target.child.ask("usage")
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, time.Until(f.end)); err != nil {
		return 0, err
	}
	after, err := f.contender.target.child.ask("usage")
	return float64(after.CPUMicros - before.CPUMicros), err
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
			if c, err = dial(ctx, f.contender.target.addr); err != nil {
				f.report.faults(f.contender.target.name).add(err)
				continue
			}
		}
		if !f.ask(c, &f.contender.sample) {
			c.Close()
			c = nil
		}
	}
}

// connect connects a lane before its first request is due, and sends one without a
// feature, since a gateway accepts few connections without a key. It returns nil if that fails.
func (f *flood) connect(ctx context.Context, lane int) *conn {
	turn := f.schedule.start.Add(-dialling + dialling*time.Duration(lane)/time.Duration(f.lanes))
	if pause(ctx, time.Until(turn)) != nil {
		return nil
	}
	c, err := dial(ctx, f.contender.target.addr)
	if err != nil {
		f.report.faults(f.contender.target.name).add(err)
		return nil
	}
	if !f.ask(c, &f.run.sample) {
		c.Close()
		return nil
	}
	return c
}

// ask sends a request on c and counts its response. It reports whether c can be used again.
func (f *flood) ask(c *conn, s *sample) bool {
	err := s.askOn(c)
	now := time.Now()
	within := !now.Before(f.counted) && now.Before(f.end)
	switch {
	case err == nil:
		if within {
			f.served.Add(1)
		}
	case c.response.status == http.StatusServiceUnavailable:
		if within {
			f.refused.Add(1)
		}
	default:
		f.report.faults(f.contender.target.name).add(err)
		return false
	}
	return true
}
