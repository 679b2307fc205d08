package bench

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// Report is what a run measured. The names of figures carry their units.
type Report struct {
	Command string    `json:"command"`
	Version string    `json:"version,omitempty"`
	Commit  string    `json:"commit,omitempty"` // where the build knows it
	Go      string    `json:"go"`
	System  string    `json:"system"`
	CPU     string    `json:"cpu"`
	Cores   int       `json:"cores"`
	Time    time.Time `json:"time"`

	// TargetCores is how many cores a target had to itself; 0 when all
	// processes shared all cores.
	TargetCores   int     `json:"target_cores"`
	RequestBytes  int     `json:"request_bytes"`
	ResponseBytes int     `json:"answer_bytes"`
	TookSeconds   float64 `json:"took_seconds"`
	Rounds        int     `json:"rounds"`

	Ratios     []Ratio      `json:"ratios"`
	Throughput []Throughput `json:"throughput"`
	Records    []Recorded   `json:"records"`
	Features   []Feature    `json:"features"`
	Latency    []Latency    `json:"latency"`
	Overload   []Overload   `json:"overload"`
	Streams    []Stream     `json:"streams"`
	Translated []Translated `json:"translated"`
	Memory     []Memory     `json:"memory"`
	Starts     []Start      `json:"starts"`
	Errors     []Fault      `json:"errors"`

	BinaryBytes int64 `json:"binary_bytes"`

	mu         sync.Mutex
	wrong      map[string]*faults // by target; guarded by mu
	forwarders []string
}

// Throughput is a closed loop: medians of all rounds, quantiles of the round in
// the middle.
type Throughput struct {
	Target        string  `json:"target"`
	Connections   int     `json:"connections"`
	PerSecond     float64 `json:"requests_per_second"`
	ShareOfDirect float64 `json:"share_of_direct"`
	CPUMicros     float64 `json:"cpu_us_per_request"`
	Allocs        float64 `json:"allocations_per_request"`
	P50Micros     float64 `json:"p50_us"`
	P99Micros     float64 `json:"p99_us"`
}

// Recorded is a closed loop on the gateway, by what it keeps of exchanges: medians
// of all rounds.
type Recorded struct {
	Target      string  `json:"target"`
	Connections int     `json:"connections"`
	PerSecond   float64 `json:"requests_per_second"`
	CPUMicros   float64 `json:"cpu_us_per_request"`
	Allocs      float64 `json:"allocations_per_request"`
	// OfUnrecorded is the throughput as a part of that without records in the same
	// round: the median of all rounds.
	OfUnrecorded float64 `json:"of_unrecorded"`
}

// Latency is an open loop. Added is over direct at the same rate.
type Latency struct {
	Target          string  `json:"target"`
	Rate            int     `json:"rate_per_second"`
	Requests        int     `json:"requests"`
	P50Micros       float64 `json:"p50_us"`
	P99Micros       float64 `json:"p99_us"`
	P999Micros      float64 `json:"p999_us"`
	AddedP50Micros  float64 `json:"added_p50_us"`
	AddedP99Micros  float64 `json:"added_p99_us"`
	AddedP999Micros float64 `json:"added_p999_us"`
}

// Stream is a load of paced streams. Late is what the gap before a frame is
// longer than the pace.
type Stream struct {
	Target              string  `json:"target"`
	Streams             int     `json:"streams"`
	FramesPerStream     int     `json:"frames_per_stream"`
	PaceMillis          float64 `json:"pace_ms"`
	FirstP50Micros      float64 `json:"first_frame_p50_us"`
	FirstP99Micros      float64 `json:"first_frame_p99_us"`
	LateP50Micros       float64 `json:"late_p50_us"`
	LateP99Micros       float64 `json:"late_p99_us"`
	AddedFirstP50Micros float64 `json:"added_first_frame_p50_us"`
	AddedFirstP99Micros float64 `json:"added_first_frame_p99_us"`
	AddedLateP50Micros  float64 `json:"added_late_p50_us"`
	AddedLateP99Micros  float64 `json:"added_late_p99_us"`
	CPUMicros           float64 `json:"cpu_us_per_frame"`
	FramesLost          int     `json:"frames_lost"`
}

// Translated is a closed loop on the gateway between a client of one dialect and
// a provider of another: medians of all rounds.
type Translated struct {
	Pair        string  `json:"pair"`        // client → provider
	TextEvents  int     `json:"text_events"` // of a stream; 0 for a complete response
	Connections int     `json:"connections"`
	PerSecond   float64 `json:"requests_per_second"`
	CPUMicros   float64 `json:"cpu_us_per_request"`
	Allocs      float64 `json:"allocations_per_request"`
	// OfSame is the CPU of a request as a multiple of that between chat and chat
	// in the same round: the median of all rounds.
	OfSame float64 `json:"of_same_dialect"`
}

// Memory is the resident memory of one target with large bodies in flight.
type Memory struct {
	Target       string  `json:"target"`
	Bodies       int     `json:"bodies"`
	BodyBytes    int     `json:"body_bytes"`
	IdleMiB      float64 `json:"idle_mib"`
	PeakMiB      float64 `json:"peak_mib"`
	AfterMiB     float64 `json:"after_mib"`
	QuietSeconds float64 `json:"quiet_seconds"` // before AfterMiB was read
}

// Start is how long a target takes from its start to its first response.
type Start struct {
	Target        string  `json:"target"`
	FirstResponse float64 `json:"first_answer_ms"`
}

// Fault counts wrong, short and missing responses of one target in the run.
type Fault struct {
	Target string `json:"target"`
	Count  int64  `json:"count"`
	First  string `json:"first,omitempty"`
}

func newReport(o Options) *Report {
	r := &Report{
		Command: strings.Join(os.Args, " "),
		Version: o.Version,
		Commit:  commit(),
		Go:      runtime.Version(),
		System:  runtime.GOOS + "/" + runtime.GOARCH,
		CPU:     cpuModel(),
		Cores:   runtime.NumCPU(),
		Time:    time.Now().UTC().Truncate(time.Second),
		Rounds:  o.Scale.Rounds,
		wrong:   map[string]*faults{},

		forwarders: o.forwarders(),
	}
	if info, err := os.Stat(o.Command[0]); err == nil {
		r.BinaryBytes = info.Size()
	}
	return r
}

// commit returns the commit of the build, empty if the build does not record it.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var revision, changed string
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				changed = " with changes"
			}
		}
	}
	return revision + changed
}

// faults returns the count of wrong responses of a target.
func (r *Report) faults(target string) *faults {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.wrong[target]
	if f == nil {
		f = new(faults)
		r.wrong[target] = f
	}
	return f
}

func (r *Report) addThroughput(target string, connections int, rounds []loaded) {
	t := Throughput{
		Target:      target,
		Connections: connections,
		PerSecond:   middle(rounds, 0, func(l loaded) float64 { return l.perSecond }),
		CPUMicros:   middle(rounds, 1, func(l loaded) float64 { return l.cpuMicros }),
		Allocs:      middle(rounds, 1, func(l loaded) float64 { return l.allocs }),
		P50Micros:   middle(rounds, 1, func(l loaded) float64 { return micros(l.times.quantile(0.5)) }),
		P99Micros:   middle(rounds, 1, func(l loaded) float64 { return micros(l.times.quantile(0.99)) }),
	}
	t.ShareOfDirect = 1
	if direct := r.throughputOf(Direct, connections); direct != nil && direct.PerSecond > 0 {
		t.ShareOfDirect = round(t.PerSecond/direct.PerSecond, 2)
	}
	r.Throughput = append(r.Throughput, t)
}

// middle returns the median of a figure over the rounds, rounded to digits.
func middle(rounds []loaded, digits int, of func(loaded) float64) float64 {
	v := make([]float64, len(rounds))
	for i, l := range rounds {
		v[i] = of(l)
	}
	return round(median(v), digits)
}

func (r *Report) throughputOf(target string, connections int) *Throughput {
	for i := range r.Throughput {
		if t := &r.Throughput[i]; t.Target == target && t.Connections == connections {
			return t
		}
	}
	return nil
}

func (r *Report) addChangesncy(target string, rate int, times samples) {
	l := Latency{
		Target: target, Rate: rate, Requests: len(times),
		P50Micros: micros(times.quantile(0.5)), P99Micros: micros(times.quantile(0.99)), P999Micros: micros(times.quantile(0.999)),
	}
	for _, d := range r.Latency {
		if d.Target == Direct && d.Rate == rate {
			l.AddedP50Micros = round(l.P50Micros-d.P50Micros, 1)
			l.AddedP99Micros = round(l.P99Micros-d.P99Micros, 1)
			l.AddedP999Micros = round(l.P999Micros-d.P999Micros, 1)
		}
	}
	r.Latency = append(r.Latency, l)
}

func (r *Report) addStreams(target string, count int, s streamed) {
	t := Stream{
		Target: target, Streams: count,
		FirstP50Micros: micros(s.first.quantile(0.5)), FirstP99Micros: micros(s.first.quantile(0.99)),
		LateP50Micros: micros(s.late.quantile(0.5)), LateP99Micros: micros(s.late.quantile(0.99)),
		CPUMicros: round(s.cpuMicros, 1), FramesLost: s.lost,
	}
	for _, d := range r.Streams {
		if d.Target == Direct && d.Streams == count {
			t.AddedFirstP50Micros = round(t.FirstP50Micros-d.FirstP50Micros, 1)
			t.AddedFirstP99Micros = round(t.FirstP99Micros-d.FirstP99Micros, 1)
			t.AddedLateP50Micros = round(t.LateP50Micros-d.LateP50Micros, 1)
			t.AddedLateP99Micros = round(t.LateP99Micros-d.LateP99Micros, 1)
		}
	}
	r.Streams = append(r.Streams, t)
}

// addTranslated compares the rounds of a pair with those of the pair of one
// dialect, each with the one before it in time.
func (r *Report) addTranslated(pair string, events int, rounds, same []loaded) {
	ratios := make([]float64, len(rounds))
	for i := range rounds {
		ratios[i] = rounds[i].cpuMicros / same[i].cpuMicros
	}
	r.Translated = append(r.Translated, Translated{
		Pair: pair, TextEvents: events, Connections: pairConnections,
		PerSecond: middle(rounds, 0, func(l loaded) float64 { return l.perSecond }),
		CPUMicros: middle(rounds, 1, func(l loaded) float64 { return l.cpuMicros }),
		Allocs:    middle(rounds, 1, func(l loaded) float64 { return l.allocs }),
		OfSame:    round(median(ratios), 2),
	})
}

func (r *Report) addMemory(target string, scale *Scale, h *memoryResult) {
	mib := func(n int64) float64 { return round(float64(n)/(1<<20), 1) }
	r.Memory = append(r.Memory, Memory{
		Target: target, Bodies: scale.Bodies, BodyBytes: scale.BodySize,
		IdleMiB: mib(h.idle), PeakMiB: mib(h.peak), AfterMiB: mib(h.after), QuietSeconds: round(h.quiet.Seconds(), 1),
	})
}

func (r *Report) addStart(target string, millis float64) {
	r.Starts = append(r.Starts, Start{target, round(millis, 1)})
}
