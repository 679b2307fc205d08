package bench

import "slices"

// Ratio is a figure that has a goal. Better says on which side of the goal a
// figure has to be.
type Ratio struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"` // "ratio", "us", "MiB", "ms", "count"
	Goal  float64 `json:"goal"`
	Far   float64 `json:"far_goal"`
	More  bool    `json:"more_is_better"`
	Met   bool    `json:"met"`
}

// check compares what was measured with the goals. Figures whose scale was not
// run are left out.
func (r *Report) compareGoals() {
	r.judgeThroughput()
	r.judgeRecords()
	r.judgeFeatures()
	r.judgeTranslated()
	r.judgeTimes()
	r.judgeMemory()
	lost := 0
	for _, s := range r.Streams {
		lost += s.FramesLost
	}
	r.atMost("frames lost, all targets", "count", float64(lost), 0, 0)
	gateways := []string{Unrecorded, FullBodies, Limits, SharedLimits}
	for _, name := range slices.Concat([]string{Direct}, r.forwarders, gateways, []string{Bare}) {
		f := Fault{Target: name, Count: r.faults(name).count.Load()}
		if first := r.faults(name).first; first != nil {
			f.First = first.Error()
		}
		r.Errors = append(r.Errors, f)
	}
	wrong := r.faults(Modelgate).count.Load()
	for _, name := range gateways {
		wrong += r.faults(name).count.Load()
	}
	r.atMost("wrong responses", "count", float64(wrong), 0, 0)
}

func (r *Report) atMost(name, unit string, value, goal, far float64) {
	r.Ratios = append(r.Ratios, Ratio{name, value, unit, goal, far, false, value <= goal})
}

func (r *Report) atLeast(name string, value, goal, far float64) {
	r.Ratios = append(r.Ratios, Ratio{name, value, "ratio", goal, far, true, value >= goal})
}

func (r *Report) judgeThroughput() {
	for _, n := range []struct {
		connections int
		name        string
	}{{64, "throughput at 64 connections, of ReverseProxy"}, {256, "throughput at 256 connections, of ReverseProxy"}} {
		if gate, proxy := r.throughputOf(Modelgate, n.connections), r.throughputOf(ReverseProxy, n.connections); gate != nil &&
			proxy.PerSecond > 0 {
			r.atLeast(n.name, round(gate.PerSecond/proxy.PerSecond, 2), 1.1, 1.8)
		}
	}
	gate, proxy, floor := r.throughputOf(Modelgate, 64), r.throughputOf(ReverseProxy, 64), r.throughputOf(Handler, 64)
	if gate == nil {
		return
	}
	if proxy.CPUMicros > 0 {
		r.atMost("CPU of a request, of ReverseProxy", "ratio", round(gate.CPUMicros/proxy.CPUMicros, 2), 0.85, 0.6)
	}
	// What net/http allocates is the same in the handler that does nothing else.
	r.atMost("allocations of a request beyond a plain handler", "count", round(gate.Allocs-floor.Allocs, 1), 25, 12)
	if other := r.throughputOf(Other, 64); other != nil && other.CPUMicros > 0 {
		r.atMost("CPU of a request, of the other build", "ratio", round(gate.CPUMicros/other.CPUMicros, 2), 1.03, 1)
		r.atMost("allocations of a request beyond the other build", "count", round(gate.Allocs-other.Allocs, 1), 0.5, 0)
	}
}

func (r *Report) judgeTranslated() {
	for _, t := range r.Translated {
		if t.Pair == pairs[0].name {
			continue
		}
		name := "CPU of " + t.Pair + ", of one dialect"
		if t.TextEvents > 0 {
			name = "CPU of " + t.Pair + " streamed, of one dialect"
		}
		r.atMost(name, "ratio", t.OfSame, 2.5, 1.6)
	}
}

func (r *Report) judgeTimes() {
	lowest := true
	for _, l := range r.Latency {
		if l.Target == Modelgate && lowest {
			lowest = false
			r.atMost("added latency p50 at a low rate", "us", l.AddedP50Micros, 130, 100)
			r.atMost("added latency p99 at a low rate", "us", l.AddedP99Micros, 400, 250)
		}
	}
	for _, o := range r.Overload {
		if o.Target == Modelgate && o.Feature == SlowChecks {
			r.atLeast("goodput at twice the load, of the peak", o.Goodput, 0.95, 0.97)
			r.atLeast("goodput at twice the load by CPU, of the peak", o.GoodputByCPU, 0.95, 0.97)
		}
	}
	fewest := true
	for _, s := range r.Streams {
		if s.Target == Modelgate && fewest {
			fewest = false
			r.atMost("added time to the first frame, p99", "us", s.AddedFirstP99Micros, 500, 250)
			r.atMost("added time per frame, p99", "us", s.AddedLateP99Micros, 20, 5)
		}
	}
	for _, s := range r.Starts {
		if s.Target == Modelgate {
			r.atMost("start to first response", "ms", s.FirstResponse, 100, 30)
		}
	}
}

func (r *Report) judgeMemory() {
	other := 0.0 // at rest, of the other build
	for _, m := range r.Memory {
		if m.Target == Other {
			other = m.IdleMiB
		}
		if m.Target == Modelgate && m.PeakMiB > 0 {
			if other > 0 {
				r.atMost("memory at rest, of the other build", "ratio", round(m.IdleMiB/other, 2), 1.05, 1)
			}
			r.atMost("memory at rest", "MiB", m.IdleMiB, 40, 25)
			r.atMost("memory at the peak of large bodies", "MiB", m.PeakMiB, 700, 450)
			r.atMost("memory after large bodies", "MiB", m.AfterMiB, 100, 50)
		}
	}
	if r.BinaryBytes > 0 {
		r.atMost("size of the binary", "MiB", round(float64(r.BinaryBytes)/(1<<20), 1), 45, 30)
	}
}
