package dataplane

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/guarding"
	"modelgate/internal/pipeline/metering"
	"modelgate/internal/records/reqlog"
)

// end records the exchange, after the last byte has been written.
func (p *Plane) end(w http.ResponseWriter, r *http.Request, x *roundTrip) {
	ticket := x.admission.request.Ticket
	defer func() { ticket.Leave() }() // unless checks go on
	if x.relayed {
		p.finishCapture(w, x)
		return
	}
	e := &x.entry
	e.Total = time.Since(e.Time)
	e.Metadata = x.admission.request.Metadata
	e.Path, e.UserAgent = x.admission.request.Received.HideKeys(e.Path), x.admission.request.Received.HideKeys(e.UserAgent)
	if x.admission.request.Identity == nil {
		if e.Level = level(&x.admission); e.Level == reqlog.LevelFull {
			e.Level = reqlog.LevelMetadata
		}
		p.finishCapture(w, x)
		e.Keyless()
		p.Keyless.Record(context.Background(), e)
		return
	}
	if p.Engine.Quota != nil {
		metering.EndRequest(&x.trail, p.Engine.Quota)
	}
	x.trail.Record(e)
	e.UpstreamModel = truncate(e.UpstreamModel)
	if x.admission.upload != nil {
		n, model := x.admission.upload.state()
		e.RequestBytes, e.Model = n, cmp.Or(model, e.Model)
	}
	if !x.complete && r.Context().Err() != nil && context.Cause(r.Context()) != ErrShutdown {
		x.clientLeft()
	}
	p.finishCapture(w, x)
	if guarding.ChecksOf(&x.trail) != nil && !x.panicked {
		if !guarding.ChecksOf(&x.trail).Finished() {
			p.awaitChecks(x)
			ticket = nil
			return
		}
		p.recordChecked(x)
		return
	}
	x.targets.releaseTrees()
	if !x.panicked { // the entry may stay in memory, and does not need these
		x.admission.request, x.trail = exchange.Request{}, exchange.Trail{}
	}
	p.Recorder.Record(context.Background(), e) // a client that disconnected is recorded too
}

// awaitChecks records an exchange once all of its checks have ended. The connection does
// not wait for them, but the exchange counts as in progress until then, since they take
// memory and connections as the request did.
func (p *Plane) awaitChecks(x *roundTrip) {
	ticket := x.admission.request.Ticket
	ticket.Sent()
	p.ending.Go(func() {
		defer ticket.Leave()
		guarding.ChecksOf(&x.trail).Await() // they read the request
		p.recordChecked(x)
	})
}

// recordChecked records an exchange whose checks have ended, and stores their feedback.
func (p *Plane) recordChecked(x *roundTrip) {
	e, checks := &x.entry, guarding.ChecksOf(&x.trail)
	x.targets.releaseTrees()
	p.endChecks(x)
	x.admission.request, x.trail = exchange.Request{}, exchange.Trail{}
	feedback, shadow := checks.Feedback(), checks.Shadow()
	p.Recorder.Record(context.Background(), e)
	if len(feedback) > 0 && p.Feedback != nil {
		p.Feedback(context.Background(), e, feedback)
	}
	if len(shadow) > 0 && p.Shadow != nil {
		p.Shadow(context.Background(), e, shadow)
	}
}

// Wait waits until every ended exchange is recorded, or ctx ends.
func (p *Plane) Wait(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.ending.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
