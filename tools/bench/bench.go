// Package bench compares the gateway with plain forwarding, in one run.
//
// [Run] starts a simulator and, in front of it, the targets: each is a process
// of its own, so that its CPU time, memory and allocations are its own. The
// load is in the calling process. It guarantees that every figure of a report
// comes from one run on one machine with the same bytes sent to every target,
// that a response which is not byte for byte the expected one counts as an error
// (a translated one that says something else, since its ids change), and that
// latency is counted from the time a request was due. Ratios between targets
// are the result; absolute times depend on the machine. Flags and files
// of reports are the job of cmd.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// Options is what Run measures and how.
type Options struct {
	// Command starts a target: the program and its arguments. Target and its
	// arguments are appended; the process has to call [Target] with them.
	Command []string

	// Against is another build of the program, which is compared with this one.
	// Empty measures none.
	Against string

	Scale Scale

	// Version is what the program calls itself, for the report.
	Version string

	// Pin gives the target one core and leaves the others to load and
	// simulator, where the system allows it and has more than one.
	Pin bool

	// Profile is a folder for profiles of the gateway under load; empty writes
	// none. They are taken after the figures.
	Profile string

	// Progress receives a line per step. Nil is silence.
	Progress io.Writer
}

// Scale is how much is measured.
type Scale struct {
	Rounds      int           // of throughput, interleaved target by target
	Load        time.Duration // of one target in a round, at one number of connections
	Connections []int
	Rates       []int         // requests per second of the open loop
	RateTime    time.Duration // of one target at one rate
	Streams     []int         // concurrent streams
	Frames      int           // of one stream
	Pace        time.Duration // between frames
	Bodies      int           // concurrent large bodies
	BodySize    int           // bytes
	Quiet       time.Duration // after the bodies, before memory is read again
	Starts      int           // times a target is started to measure how long it takes
	Pairs       int           // of dialects between which the gateway translates, from the first on
	Profile     time.Duration // of the load under which profiles are taken
}

// Full returns the scale of published figures: about five minutes.
func Full() Scale {
	return Scale{
		Rounds:      3,
		Load:        1500 * time.Millisecond,
		Connections: []int{1, 16, 64, 256},
		Rates:       []int{200, 1000},
		RateTime:    6 * time.Second,
		Streams:     []int{200, 1000},
		Frames:      50,
		Pace:        20 * time.Millisecond,
		Bodies:      1500,
		BodySize:    150 << 10,
		Quiet:       time.Minute,
		Starts:      5,
		Pairs:       len(pairs) - 1,
		Profile:     10 * time.Second,
	}
}

// Quick returns the scale of a short run: about half a minute.
func Quick() Scale {
	return Scale{
		Rounds:      1,
		Load:        700 * time.Millisecond,
		Connections: []int{16, 64},
		Rates:       []int{200},
		RateTime:    time.Second,
		Streams:     []int{200},
		Frames:      50,
		Pace:        20 * time.Millisecond,
		Bodies:      300,
		BodySize:    150 << 10,
		Quiet:       time.Second,
		Starts:      1,
		Pairs:       2,
		Profile:     3 * time.Second,
	}
}

// Targets in the order of the report. Direct is the simulator without anything
// in front of it.
const (
	Direct       = "direct"
	ReverseProxy = "reverseproxy"
	Handler      = "handler"
	Modelgate    = "modelgate"
	simulatorJob = "simulator"

	// Unrecorded and FullBodies are Modelgate, keeping no record of exchanges and
	// keeping their bodies as well.
	Unrecorded = "modelgate without records"
	FullBodies = "modelgate with bodies"

	// Other is the gateway of another build; see Options.Against.
	Other = "other build"
)

// forwarders returns the targets that are in front of the simulator, the gateway
// last.
func (o *Options) forwarders() []string {
	if o.Against == "" {
		return []string{ReverseProxy, Handler, Modelgate}
	}
	return []string{ReverseProxy, Handler, Other, Modelgate}
}

// command returns what starts the target name: of another build, its gateway.
func (o *Options) command(name string) []string {
	if name != Other {
		return append(slices.Clone(o.Command), name)
	}
	argv := append([]string{o.Against}, o.Command[1:]...)
	return append(argv, Modelgate)
}

// gatewayKey is what requests show, and temporary in every respect.
const gatewayKey = "mg-bench-0123456789abcdef0123456789abcdef"

// run is one benchmark while it goes on.
type run struct {
	Options
	report  *Report
	targets []*target
	sim     *child
	sample  sample
	places  *places // nil when nothing is pinned
}

// target is something that answers requests.
type target struct {
	name  string
	addr  string
	child *child // the simulator's own for the direct target
}

// Run measures what o asks for. It ends every process it started.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	r := &run{Options: o, report: newReport(o)}
	began := time.Now()
	unpin := r.pin()
	defer unpin()
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"throughput", r.throughput},
		{"records", r.measureRecording},
		{"features", r.measureFeatures},
		{"latency", r.latency},
		{"overload", r.overload},
		{"streams", r.measureStreams},
		{"translation", r.translation},
		{"profiles", r.profile},
		{"memory", r.memory},
		{"start-up", r.measureStarts},
	} {
		r.progressf("%s", step.name)
		if err := step.do(ctx); err != nil {
			return nil, fmt.Errorf("measuring %s: %w", step.name, err)
		}
	}
	r.report.TookSeconds = round(time.Since(began).Seconds(), 1)
	r.report.compareGoals()
	return r.report, nil
}

func (r *run) progressf(format string, args ...any) {
	fmt.Fprintf(r.Progress, format+"\n", args...)
}

// start brings up the simulator and a target of each kind, and learns from the
// simulator what a right response is.
func (r *run) start(ctx context.Context) (err error) {
	if r.sim, err = r.spawn(ctx, simulatorJob); err != nil {
		return err
	}
	r.targets = []*target{{Direct, r.sim.addr, r.sim}}
	for _, name := range r.forwarders() {
		c, err := r.spawn(ctx, name, r.sim.addr)
		if err != nil {
			return errors.Join(err, r.stop())
		}
		r.targets = append(r.targets, &target{name, c.addr, c})
	}
	r.sample, err = learn(ctx, r.sim.addr)
	if err != nil {
		return errors.Join(err, r.stop())
	}
	r.report.RequestBytes, r.report.ResponseBytes = requestBytes, len(r.sample.response)
	return nil
}

func (r *run) stop() error {
	var errs []error
	for _, t := range r.targets {
		errs = append(errs, t.child.stop())
	}
	r.targets = nil
	return errors.Join(errs...)
}

// profile writes profiles of the gateway under the load of 64 connections.
func (r *run) profile(ctx context.Context) error {
	if r.Profile == "" {
		return nil
	}
	if err := os.MkdirAll(r.Profile, 0o755); err != nil {
		return err
	}
	gate := r.targets[len(r.targets)-1]
	for _, command := range []string{"profile-cpu ", "profile-allocs "} {
		if _, err := gate.child.ask(command + r.Profile); err != nil {
			return err
		}
		if _, err := r.closedLoop(ctx, gate, &r.sample, 64, r.Scale.Profile); err != nil {
			return err
		}
	}
	_, err := gate.child.ask("profiled " + r.Profile)
	return err
}
