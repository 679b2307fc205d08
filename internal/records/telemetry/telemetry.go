// Package telemetry sends spans and metrics of requests to collectors by OTLP.
//
// An [Exporter] builds spans and metrics from ended entries in its own goroutines: a
// slow or unavailable collector costs a limited amount of memory and then a counted
// loss, but never delays requests. Spans and metrics follow OpenTelemetry's conventions
// for generative AI; they contain no bodies, error messages or credentials. The package
// does not provide the metrics for Prometheus (see server) or define entries (see
// reqlog).
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"modelgate/internal/base/secret"
	"modelgate/internal/records/reqlog"
)

// Options configure an [Exporter].
type Options struct {
	// Traces and Metrics are the collectors of each signal. Nil sends none.
	Traces, Metrics *Collector

	// Sample is the fraction of traces, 0 to 1, that is sent if the client's
	// traceparent does not decide.
	Sample float64

	// Interval is the interval of sending metrics. Zero means every minute.
	Interval time.Duration

	// Version is the gateway's version.
	Version string

	// Logger reports failures of a collector and recoveries. Nil is silent.
	Logger *slog.Logger
}

// Collector is a destination of telemetry.
type Collector struct {
	// Endpoint is its base address, for example http://collector:4318. If empty, the
	// variables OTEL_EXPORTER_OTLP_* apply.
	Endpoint string
	Protocol Protocol
	// Headers are sent with each request. If empty, the headers of the variables apply.
	Headers map[string]secret.String
}

// Protocol is the protocol of a collector.
type Protocol string

// Protocols.
const (
	HTTP Protocol = "http" // protobuf in HTTP requests
	GRPC Protocol = "grpc"
)

// Limits of queued entries and spans.
const (
	maxEntries = 2048
	maxSpans   = 8192
	batchSize  = 512
)

// Times of sending.
const (
	batchDelay  = time.Second      // for a batch to fill
	sendTime    = 10 * time.Second // for one try
	firstPause  = time.Second      // before a batch is retried; doubles
	longPause   = 30 * time.Second
	sendForHow  = time.Minute // then the batch is lost
	metricEvery = time.Minute
)

// Stats counts spans and metrics.
type Stats struct {
	Sent    int64 // spans that the collector accepted
	Lost    int64 // spans that it did not accept in time, or that did not fit in the queue
	Skipped int64 // entries that did not fit in the queue: neither spans nor metrics
	Failing bool  // the last attempt to send traces or metrics failed
}

// Exporter sends spans and metrics. It is safe for concurrent use. A nil Exporter
// discards everything.
type Exporter struct {
	o        Options
	resource resourceOf
	upload   func(ctx context.Context, spans []*tracepb.ResourceSpans) error
	measures *instruments
	closers  []func(context.Context) error

	entries chan *reqlog.Entry
	batches chan []*tracepb.Span
	stop    chan struct{}      // closed when no more is accepted
	made    chan struct{}      // closed when everything accepted was processed
	hurry   context.CancelFunc // cancels tries in progress
	running sync.WaitGroup
	closed  sync.Once

	sent, lost, skipped   atomic.Int64
	tracesBad, metricsBad atomic.Bool
}

// Start returns an exporter that runs until Close. ctx limits only the start.
func Start(ctx context.Context, o Options) (*Exporter, error) {
	if o.Traces == nil && o.Metrics == nil {
		return nil, nil
	}
	x, err := newExporter(o)
	if err != nil {
		return nil, err
	}
	if o.Traces != nil {
		client := o.Traces.traceClient()
		if err := client.Start(ctx); err != nil {
			return nil, fmt.Errorf("telemetry: traces: %w", err)
		}
		x.upload = client.UploadTraces
		x.closers = append(x.closers, client.Stop)
	}
	if o.Metrics != nil {
		exporter, err := o.Metrics.metricExporter(ctx)
		if err != nil {
			return nil, fmt.Errorf("telemetry: metrics: %w", err)
		}
		if x.measures, err = newMeasures(x.resource.resource, exporter); err != nil {
			return nil, err
		}
		x.closers = append(x.closers, exporter.Shutdown)
	}
	x.run()
	return x, nil
}

// newExporter returns an exporter that does not send yet.
func newExporter(o Options) (*Exporter, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Interval <= 0 {
		o.Interval = metricEvery
	}
	r, err := newResource(o.Version)
	if err != nil {
		return nil, err
	}
	return &Exporter{
		o: o, resource: r,
		entries: make(chan *reqlog.Entry, maxEntries),
		batches: make(chan []*tracepb.Span, maxSpans/batchSize),
		stop:    make(chan struct{}),
		made:    make(chan struct{}),
	}, nil
}

func (x *Exporter) run() {
	var ctx context.Context
	ctx, x.hurry = context.WithCancel(context.Background())
	x.running.Go(x.work)
	x.running.Go(func() { x.send(ctx) })
	if x.measures != nil {
		x.running.Go(func() { x.sendMeasures(ctx) })
	}
}

// Record implements [reqlog.Recorder]. It never blocks.
func (x *Exporter) Record(_ context.Context, e *reqlog.Entry) {
	if x == nil {
		return
	}
	select {
	case x.entries <- e:
	default:
		x.skipped.Add(1)
	}
}

var _ reqlog.Recorder = (*Exporter)(nil)

// Stats returns the counts since the start.
func (x *Exporter) Stats() Stats {
	if x == nil {
		return Stats{}
	}
	return Stats{
		Sent: x.sent.Load(), Lost: x.lost.Load(), Skipped: x.skipped.Load(),
		Failing: x.tracesBad.Load() || x.metricsBad.Load(),
	}
}

// Close sends what was accepted until ctx ends. Further calls do nothing.
func (x *Exporter) Close(ctx context.Context) (err error) {
	if x != nil {
		x.closed.Do(func() { err = x.close(ctx) })
	}
	return err
}

func (x *Exporter) close(ctx context.Context) error {
	close(x.stop)
	done := make(chan struct{})
	go func() { x.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
	x.hurry()
	<-done
	var errs []error
	for _, f := range x.closers {
		errs = append(errs, f(context.WithoutCancel(ctx)))
	}
	return errors.Join(errs...)
}

// work builds metrics and batches of spans from entries. It never waits for a
// collector.
func (x *Exporter) work() {
	defer close(x.made)
	defer close(x.batches)
	tick := time.NewTicker(batchDelay)
	defer tick.Stop()
	var batch []*tracepb.Span
	take := func(e *reqlog.Entry) {
		if x.measures != nil {
			x.measures.take(e)
		}
		if x.upload != nil && x.sampled(e.ID, e.TraceID, e.TraceFlags) {
			batch = append(batch, spans(e)...)
		}
		if len(batch) >= batchSize {
			x.enqueue(batch)
			batch = nil
		}
	}
	for {
		select {
		case e := <-x.entries:
			take(e)
		case <-tick.C:
			x.enqueue(batch)
			batch = nil
		case <-x.stop:
			for len(x.entries) > 0 {
				take(<-x.entries)
			}
			x.enqueue(batch)
			return
		}
	}
}

// enqueue passes a batch to the sender, or drops it.
func (x *Exporter) enqueue(batch []*tracepb.Span) {
	if len(batch) == 0 {
		return
	}
	select {
	case x.batches <- batch:
	default:
		x.lost.Add(int64(len(batch)))
	}
}

// send sends batches, one at a time.
func (x *Exporter) send(ctx context.Context) {
	for batch := range x.batches {
		if x.deliver(ctx, batch) {
			x.sent.Add(int64(len(batch)))
		} else {
			x.lost.Add(int64(len(batch)))
		}
	}
}

// deliver sends one batch, retrying until it is accepted or too old. Once the exporter
// is closed each batch gets one try.
func (x *Exporter) deliver(ctx context.Context, batch []*tracepb.Span) bool {
	began, pause := time.Now(), firstPause
	for {
		err := try(ctx, func(ctx context.Context) error { return x.upload(ctx, x.resource.spans(batch)) })
		x.logState("traces", &x.tracesBad, err)
		if err == nil {
			return true
		}
		if time.Since(began)+pause > sendForHow {
			return false
		}
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-x.stop:
			wait.Stop()
			return false
		}
		pause = min(2*pause, longPause)
	}
}

// try calls f with the time limit of one try.
func try(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	return f(ctx)
}

// sendMeasures sends the metrics at each interval, and at the end.
func (x *Exporter) sendMeasures(ctx context.Context) {
	tick := time.NewTicker(x.o.Interval)
	defer tick.Stop()
	send := func() {
		var all metricdata.ResourceMetrics
		err := try(ctx, func(ctx context.Context) error {
			if err := x.measures.reader.Collect(ctx, &all); err != nil {
				return err
			}
			return x.measures.exporter.Export(ctx, &all)
		})
		x.logState("metrics", &x.metricsBad, err)
	}
	for {
		select {
		case <-tick.C:
			send()
		case <-x.made:
			send()
			return
		}
	}
}

// logState logs when a collector begins to fail and when it recovers. Its response is
// not logged, because it may contain what was sent.
func (x *Exporter) logState(what string, bad *atomic.Bool, err error) {
	if was := bad.Swap(err != nil); was == (err != nil) {
		return
	}
	if err == nil {
		x.o.Logger.Info("telemetry export recovered", "signal", what)
		return
	}
	text, _, _ := strings.Cut(err.Error(), "body:")
	x.o.Logger.Warn("telemetry export failed", "signal", what, "err", strings.TrimRight(text, " ("))
}
