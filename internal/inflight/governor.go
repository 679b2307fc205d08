package inflight

import (
	"context"
	"runtime"
	"runtime/metrics"
	"time"
)

// Limits of a [Governor].
const (
	// interval is how often the delay is measured.
	interval = 100 * time.Millisecond
	// overloaded is the delay from which the processors are overloaded, and relaxed
	// the one below which they are not.
	overloaded = 20 * time.Millisecond
	relaxed    = 10 * time.Millisecond
	// ownWork is the part of the processors that this process takes at least when it
	// is overloaded. If it takes less, others do, and fewer requests would not help.
	ownWork = 0.75
	// perProcessor is how many requests per processor are always allowed. They cause
	// no delay that clients would notice, and requests that wait for providers need
	// no processor.
	perProcessor = 128
)

// work measures the processor time of this process.
type work struct {
	at   time.Time
	used time.Duration
}

func newWork() *work { return &work{time.Now(), processorTime()} }

// share returns the part of all processors that the process took since the last call.
func (w *work) share() float64 {
	now, used := time.Now(), processorTime()
	s := float64(used-w.used) / float64(max(now.Sub(w.at), 1)) / float64(runtime.GOMAXPROCS(0))
	w.at, w.used = now, used
	return s
}

// schedulerDelay is the runtime's histogram of the time that goroutines wait for a
// processor, https://pkg.go.dev/runtime/metrics.
const schedulerDelay = "/sched/latencies:seconds"

// Governor sets the limit of a [Gate] by how long goroutines wait for a processor:
// beyond that limit further requests would only delay those in progress. It lowers
// the limit to nine tenths of the running requests while this process overloads the
// processors and raises it by a twentieth while nothing waits.
type Governor struct {
	gate    *Gate
	minimum int64
	delay   func() time.Duration // since the last call
	work    func() float64       // part of the processors that this process took since then
	strain  int                  // consecutive measurements over the threshold
}

// NewGovernor returns a governor of g.
func NewGovernor(g *Gate) *Governor {
	return &Governor{gate: g, minimum: int64(perProcessor * runtime.GOMAXPROCS(0)), delay: newDelays().high, work: newWork().share}
}

// Run measures and adjusts until ctx ends.
func (v *Governor) Run(ctx context.Context) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			v.adjust(v.delay(), v.work())
		}
	}
}

// adjust sets the limit for a delay. A single long delay, as a collection of
// garbage may cause, changes nothing.
func (v *Governor) adjust(delay time.Duration, work float64) {
	limit := v.gate.limit.Load()
	switch {
	case delay >= overloaded && work >= ownWork:
		if v.strain++; v.strain > 1 {
			v.gate.setLimit(max(min(limit, v.gate.running.Load())*9/10, v.minimum))
		}
	case delay < relaxed:
		v.strain = 0
		if limit < v.gate.most {
			v.gate.setLimit(limit + limit/20 + 1)
		}
	default:
		v.strain = 0
	}
}

// delays reads the scheduler's delays.
type delays struct {
	sample [1]metrics.Sample
	before []uint64 // counts at the last call
}

func newDelays() *delays {
	return &delays{sample: [1]metrics.Sample{{Name: schedulerDelay}}}
}

// high returns the delay that nine of ten goroutines did not exceed since the last
// call. The median would not do: goroutines that hand over to each other do not
// wait even under load.
func (d *delays) high() time.Duration {
	metrics.Read(d.sample[:])
	h := d.sample[0].Value.Float64Histogram()
	if len(d.before) != len(h.Counts) {
		d.before = make([]uint64, len(h.Counts))
	}
	var total uint64
	for i, n := range h.Counts {
		total += n - d.before[i]
	}
	var sum uint64
	at := 0
	for i, n := range h.Counts {
		if sum += n - d.before[i]; total > 0 && sum*10 >= total*9 {
			at = i
			break
		}
	}
	copy(d.before, h.Counts)
	if total == 0 {
		return 0
	}
	return time.Duration(min(h.Buckets[at+1], 60) * float64(time.Second))
}
