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
	// lasting is after how many measurements in a row an overload lasts.
	lasting = 10
	// perProcessor is how many requests per processor are always allowed: they cause
	// no delay that clients would notice.
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

// Governor sets the limits of a [Gate] by how long goroutines wait for a processor:
// beyond them further requests would only delay those in progress. While this process
// overloads the processors, it lowers the number of requests that are prepared to nine
// tenths at a time; the others wait in the queue instead of for a processor. Requests
// that were sent to a provider may just wait for it: only if the overload lasts, no
// further ones are admitted than end. When nothing waits any more, both limits rise
// again, each time by twice as much.
type Governor struct {
	gate    *Gate
	minimum int64
	delay   func() time.Duration // since the last call
	work    func() float64       // part of the processors that this process took since then
	strain  int                  // consecutive measurements over the threshold
	step    int64                // by how much the limits rise next
}

// NewGovernor returns a governor of g.
func NewGovernor(g *Gate) *Governor {
	return newGovernor(g, runtime.GOMAXPROCS(0), newDelays().high, newWork().share)
}

func newGovernor(g *Gate, processors int, delay func() time.Duration, work func() float64) *Governor {
	minimum := int64(perProcessor * processors)
	return &Governor{gate: g, minimum: minimum, delay: delay, work: work, step: minimum}
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

// adjust sets the limits for a delay. A single long delay, as a collection of
// garbage may cause, changes nothing.
func (v *Governor) adjust(delay time.Duration, work float64) {
	l := v.gate.Load()
	limit, running := int64(l.Limit), int64(l.Running)
	preparingLimit, preparing := int64(l.PreparingLimit), int64(l.Preparing)
	switch {
	case delay >= overloaded && work >= ownWork:
		v.strain++
		if v.strain > 1 {
			preparingLimit = max(min(preparingLimit, preparing)*9/10, v.minimum)
		}
		if v.strain > lasting {
			limit, v.step = max(min(limit, running), v.minimum), v.minimum
		}
	case delay < relaxed:
		v.strain = 0
		limit = max(limit, running+v.step)
		preparingLimit = max(preparingLimit, preparing+v.step)
		v.step = min(2*v.step, DefaultRequests)
	default:
		v.strain = 0
	}
	v.gate.setLimits(limit, preparingLimit)
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
