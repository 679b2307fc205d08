package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// recordConnections is how many connections the gateway is loaded with to see what
// its records cost.
const recordConnections = 64

// measureRecording measures the cost of recording: the same program with recording, with recorded
// bodies too, and without recording, round by round. The latter two are started for this
// step only.
func (r *run) measureRecording(ctx context.Context) (err error) {
	gate := r.targets[len(r.targets)-1]
	targets := []*target{gate}
	defer func() {
		for _, t := range targets[1:] {
			err = errors.Join(err, t.child.stop())
		}
	}()
	for _, name := range []string{Unrecorded, FullBodies} {
		c, err := r.spawn(ctx, name, r.sim.addr)
		if err != nil {
			return err
		}
		targets = append(targets, &target{name, c.addr, c})
	}
	rounds := map[string][]loaded{}
	for round := range r.Scale.Rounds {
		for _, t := range targets {
			l, err := r.closedLoop(ctx, t, &r.sample, recordConnections, r.Scale.Load)
			if err != nil {
				return err
			}
			r.progressf("  round %d, %s: %.0f/s, %.1f µs CPU", round+1, t.name, l.perSecond, l.cpuMicros)
			rounds[t.name] = append(rounds[t.name], l)
		}
	}
	for _, name := range []string{Unrecorded, Modelgate, FullBodies} {
		r.report.addRecorded(name, rounds[name], rounds[Unrecorded])
	}
	return nil
}

func (r *Report) addRecorded(target string, rounds, without []loaded) {
	parts := make([]float64, len(rounds))
	for i := range rounds {
		parts[i] = rounds[i].perSecond / without[i].perSecond
	}
	r.Records = append(r.Records, Recorded{
		Target: target, Connections: recordConnections,
		PerSecond:    middle(rounds, 0, func(l loaded) float64 { return l.perSecond }),
		CPUMicros:    middle(rounds, 1, func(l loaded) float64 { return l.cpuMicros }),
		Allocs:       middle(rounds, 1, func(l loaded) float64 { return l.allocs }),
		OfUnrecorded: round(median(parts), 2),
	})
}

// judgeRecords compares the cost of recording at the default logging level with its
// goal.
func (r *Report) judgeRecords() {
	for _, rec := range r.Records {
		if rec.Target == Modelgate {
			r.atLeast("throughput with records, of without", rec.OfUnrecorded, 0.9, 0.97)
		}
	}
}

func (r *Report) recordTable(w io.Writer) {
	fmt.Fprintln(w, "connections\ttarget\trequests/s\tCPU µs/request\tallocations\tof without\t")
	for _, t := range r.Records {
		fmt.Fprintf(w, "%d\t%s\t%.0f\t%.1f\t%.0f\t%.2f\t\n", t.Connections, t.Target, t.PerSecond, t.CPUMicros, t.Allocs, t.OfUnrecorded)
	}
}
