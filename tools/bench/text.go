package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteText prints the report: what is compared with goals first, then every
// figure.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, table := range []func(io.Writer){r.head, r.goals, r.throughputTable, r.recordTable, r.featureTable, r.latencyTable, r.overloadTable,
		r.streamTable, r.translatedTable, r.memoryTable, r.writeErrors} {
		table(t)
		t.Flush()
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) head(w io.Writer) {
	cores := "all processes share them"
	if r.TargetCores > 0 {
		cores = fmt.Sprintf("%d for the target, the others for load and simulator", r.TargetCores)
	}
	fmt.Fprintf(w, "%s\n%s, %s, %d cores (%s), %s", r.Command, r.CPU, r.System, r.Cores, cores, r.Go)
	if r.Version != "" {
		fmt.Fprintf(w, ", modelgate %s", r.Version)
	}
	if r.Commit != "" {
		fmt.Fprintf(w, ", commit %s", r.Commit)
	}
	fmt.Fprintf(w, "\n%d-byte requests, %d-byte responses, %d rounds, %.0f s in all\n", r.RequestBytes, r.ResponseBytes, r.Rounds,
		r.TookSeconds)
}

func (r *Report) goals(w io.Writer) {
	fmt.Fprintln(w, "figure\tvalue\tgoal\tfar goal\t\t")
	for _, g := range r.Ratios {
		sign, mark := "≤", "ok"
		if g.More {
			sign = "≥"
		}
		if !g.Met {
			mark = "LOST"
		}
		fmt.Fprintf(w, "%s\t%g %s\t%s %g\t%s %g\t%s\t\n", g.Name, g.Value, unitWord(g.Unit), sign, g.Goal, sign, g.Far, mark)
	}
}

func unitWord(unit string) string {
	switch unit {
	case "us":
		return "µs"
	case "ratio":
		return "×"
	case "count":
		return ""
	}
	return unit
}

func (r *Report) throughputTable(w io.Writer) {
	fmt.Fprintln(w, "connections\ttarget\trequests/s\tof direct\tCPU µs/request\tallocations\tp50 µs\tp99 µs\t")
	for _, t := range r.Throughput {
		fmt.Fprintf(w, "%d\t%s\t%.0f\t%.2f\t%.1f\t%.0f\t%.0f\t%.0f\t\n",
			t.Connections, t.Target, t.PerSecond, t.ShareOfDirect, t.CPUMicros, t.Allocs, t.P50Micros, t.P99Micros)
	}
}

func (r *Report) latencyTable(w io.Writer) {
	fmt.Fprintln(w, "rate/s\ttarget\tp50 µs\tp99 µs\tp99.9 µs\tadded p50\tadded p99\tadded p99.9\t")
	for _, l := range r.Latency {
		fmt.Fprintf(w, "%d\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t\n",
			l.Rate, l.Target, l.P50Micros, l.P99Micros, l.P999Micros, l.AddedP50Micros, l.AddedP99Micros, l.AddedP999Micros)
	}
}

func (r *Report) overloadTable(w io.Writer) {
	fmt.Fprintln(w,
		"at twice the load\ttarget\tfeature\tpeak/s\tanswered/s\trefused/s\tof the peak\tCPU µs/response at the peak\tat twice the load\tof the peak by CPU\t")
	for _, o := range r.Overload {
		fmt.Fprintf(w, "%d/s\t%s\t%s\t%.0f\t%.0f\t%.0f\t%.2f\t%.1f\t%.1f\t%.2f\t\n",
			o.SentPerSecond, o.Target, o.Feature, o.PeakPerSecond, o.ServedPerSecond, o.RefusePerSecond, o.Goodput, o.PeakCPUMicros, o.CPUMicros,
			o.GoodputByCPU)
	}
}

func (r *Report) streamTable(w io.Writer) {
	fmt.Fprintln(w,
		"streams\ttarget\tfirst p50 µs\tfirst p99 µs\tadded p50\tadded p99\tframe late p50\tp99\tadded p50\tadded p99\tCPU µs/frame\tlost\t")
	for _, s := range r.Streams {
		fmt.Fprintf(w, "%d\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.1f\t%d\t\n",
			s.Streams, s.Target, s.FirstP50Micros, s.FirstP99Micros, s.AddedFirstP50Micros, s.AddedFirstP99Micros,
			s.LateP50Micros, s.LateP99Micros, s.AddedLateP50Micros, s.AddedLateP99Micros, s.CPUMicros, s.FramesLost)
	}
}

func (r *Report) translatedTable(w io.Writer) {
	fmt.Fprintln(w, "client → provider\tresponse\trequests/s\tCPU µs/request\tallocations\tof one dialect\t")
	for _, t := range r.Translated {
		mode := "complete"
		if t.TextEvents > 0 {
			mode = fmt.Sprintf("%d text events", t.TextEvents)
		}
		fmt.Fprintf(w, "%s\t%s\t%.0f\t%.1f\t%.0f\t%.2f\t\n", t.Pair, mode, t.PerSecond, t.CPUMicros, t.Allocs, t.OfSame)
	}
}

func (r *Report) memoryTable(w io.Writer) {
	fmt.Fprintln(w, "bodies\ttarget\tidle MiB\tpeak MiB\tafter MiB\t")
	for _, m := range r.Memory {
		fmt.Fprintf(w, "%d × %d KiB\t%s\t%.1f\t%.1f\t%.1f (%.0f s)\t\n",
			m.Bodies, m.BodyBytes>>10, m.Target, m.IdleMiB, m.PeakMiB, m.AfterMiB, m.QuietSeconds)
	}
}

func (r *Report) writeErrors(w io.Writer) {
	fmt.Fprintln(w, "target\tstart to first response, ms\twrong responses\t")
	for _, e := range r.Errors {
		start := "-"
		for _, s := range r.Starts {
			if s.Target == e.Target {
				start = fmt.Sprintf("%.1f", s.FirstResponse)
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t\n", e.Target, start, e.Count)
	}
	for _, e := range r.Errors {
		if e.First != "" {
			fmt.Fprintf(w, "\nthe first wrong response of %s: %s\n", e.Target, e.First)
		}
	}
}
