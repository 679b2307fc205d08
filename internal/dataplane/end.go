package dataplane

import (
	"cmp"
	"context"
	"modelgate/internal/pipeline"
	"modelgate/internal/reqlog"
	"net/http"
	"time"
)

// end records the exchange, after the last byte has been written.
func (p *Plane) end(w http.ResponseWriter, r *http.Request, x *exchange) {
	defer x.Ticket.Leave()
	e := &x.entry
	e.Total = time.Since(e.Time)
	e.Metadata = x.Metadata
	e.Path, e.UserAgent = x.HideKeys(e.Path), x.HideKeys(e.UserAgent)
	if x.Identity == nil {
		if e.Level = x.level(); e.Level == reqlog.LevelFull {
			e.Level = reqlog.LevelMetadata
		}
		p.finishCapture(w, x)
		e.Keyless()
		p.Keyless.Record(context.Background(), e)
		return
	}
	if p.Engine.Quota != nil {
		x.trail.EndRequest(p.Engine.Quota)
	}
	x.trail.Record(e)
	e.UpstreamModel = truncate(e.UpstreamModel)
	if x.upload != nil {
		n, model := x.upload.state()
		e.RequestBytes, e.Model = n, cmp.Or(model, e.Model)
	}
	if !x.complete && r.Context().Err() != nil && context.Cause(r.Context()) != ErrShutdown {
		x.clientLeft()
	}
	p.finishCapture(w, x)
	if x.trail.Checks() != nil && !x.panicked {
		p.endChecked(x)
		return
	}
	p.releaseTrees(x)
	if !x.panicked { // the entry may stay in memory, and does not need these
		x.Request, x.trail = pipeline.Request{}, pipeline.Trail{}
	}
	p.Recorder.Record(context.Background(), e) // a client that disconnected is recorded too
}

// endChecked records an exchange with checks once all of them have ended, and
// stores their feedback. The connection does not wait for either.
func (p *Plane) endChecked(x *exchange) {
	if x.trail.Checks().Finished() {
		p.recordChecked(x)
		return
	}
	p.ending.Go(func() {
		x.trail.Checks().Await() // they read the request
		p.recordChecked(x)
	})
}

func (p *Plane) recordChecked(x *exchange) {
	e, checks := &x.entry, x.trail.Checks()
	p.releaseTrees(x)
	p.endChecks(x)
	x.Request, x.trail = pipeline.Request{}, pipeline.Trail{}
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
