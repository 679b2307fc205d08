package dataplane

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"sync"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/limits/policy"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/metering"
	"modelgate/internal/records/reqlog"
)

// toolState is what the messages of a request have done so far.
type toolState struct {
	guards *exchange.Guards // nil for none; does not change
	rates  struct {
		sync.Once
		err error
	}

	// The fields below are guarded by the lock of the request.
	open     []*ToolRun
	busy     int       // messages whose servers have not answered
	since    time.Time // when busy became positive
	upstream time.Duration
	named    bool // the name in the entry is that of a server
	counts   bool // a message was sent that no server failed
	priced   bool // the use of a message is known
}

// checkRates returns the error of check for the first message. The others do not repeat it: what
// the request has reserved itself must not refuse them.
func (s *toolState) checkRates(check func() error) error {
	s.rates.Do(func() { s.rates.err = check() })
	return s.rates.err
}

// waited returns the time in which servers were waited for, in any number.
func (s *toolState) waited() time.Duration {
	if s.busy == 0 {
		return s.upstream
	}
	return s.upstream + time.Since(s.since)
}

// begun counts a message that is about to be sent.
func (t *ToolRequest) begun(r *ToolRun) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.tools
	s.open = append(s.open, r)
	if s.busy++; s.busy == 1 {
		s.since = time.Now()
	}
	s.named = s.named || r.call.Operation.IsCall() || r.call.Operation == api.ToolPrompt
}

// answered ends the time of a message in which its server was waited for.
func (t *ToolRequest) answered(r *ToolRun) {
	if !r.waiting.Swap(false) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.tools
	if s.busy--; s.busy == 0 {
		s.upstream += time.Since(s.since)
	}
	r.record.Record.Took = time.Since(r.began)
}

// ended adds a message to the record of the request.
func (t *ToolRequest) ended(r *ToolRun, e *ToolEnd, settled *reqlog.Settlement) {
	t.answered(r)
	t.mu.Lock()
	defer t.mu.Unlock()
	s, x := &t.tools, t.trip
	s.open = slices.DeleteFunc(s.open, func(other *ToolRun) bool { return other == r })
	s.counts = s.counts || !e.Unsent && (settled.Outcome == reqlog.Answered || settled.Outcome == reqlog.Abandoned ||
		settled.Outcome == reqlog.Refused && e.Status < 500)
	s.priced = s.priced || settled.Outcome == reqlog.Answered
	x.trail.Add(&r.record)
	rec := &x.entry
	if r.call.Operation == api.Tools || rec.ErrorCode != "" { // other servers may have answered
		return
	}
	failed := "tool_server_failed"
	if r.call.Operation.IsAgents() {
		failed = "agent_failed"
	}
	switch {
	case e.Err != nil || e.Status >= 400:
		rec.ErrorSource, rec.ErrorCode, rec.ErrorMessage = "provider", failed, r.record.Record.Error
	case e.IsError:
		rec.ErrorSource, rec.ErrorCode = "provider", "tool_error"
	}
}

// fail records why a message was refused. That of a list is one of several.
func (t *ToolRequest) fail(op api.Operation, record func(x *roundTrip)) {
	if op == api.Tools {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	record(t.trip)
}

// end ends the messages that are still open, whose results nobody waits for any more, and
// counts the request.
func (t *ToolRequest) end() {
	t.mu.Lock()
	open := slices.Clone(t.tools.open)
	t.mu.Unlock()
	for _, r := range open {
		r.End(ToolEnd{Err: apierr.New(apierr.ClientGone, "the request has ended")})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s, x := &t.tools, t.trip
	var failed error
	if !s.counts {
		failed = apierr.New(apierr.UpstreamFailed, "no server answered")
	}
	if store := t.plane.Engine.Quota; store != nil {
		metering.CountRequest(&x.trail, store, nil, failed)
	}
	x.trail.UpstreamTime = s.waited()
	if len(x.trail.Attempts) > 0 {
		x.entry.Provider, x.entry.UpstreamModel = reqlog.ProviderTools, x.entry.Model
		x.entry.Usage = llm.Usage{Known: s.priced}
	}
}

// facts returns what policies read of a message, nil if there are no policies.
func (t *ToolRequest) facts(c *ToolCall) *policy.Facts {
	base := t.trip.admission.request.Limiting.Facts
	if base == nil {
		return nil
	}
	f := *base
	f.Tools, f.EndpointType, f.Server = true, string(c.Operation), c.Server.Slug
	f.Model, f.ModelInPath, f.Config, f.Prompt = "", false, "", ""
	if t.Session != "" && f.Metadata[policy.SessionField] == "" {
		if f.Metadata = maps.Clone(f.Metadata); f.Metadata == nil {
			f.Metadata = make(map[string]string, 1)
		}
		sum := sha256.Sum256([]byte(t.Session)) // who has a session may use it
		f.Metadata[policy.SessionField] = "mcp-" + hex.EncodeToString(sum[:16])
	}
	if !c.Operation.IsCall() {
		return &f
	}
	if f.Tool = c.Name; t.trip.admission.request.Limiting.Policies.Governs(&f) {
		same := c.Same
		if same == nil {
			same = c.Arguments
		}
		f.Call = policy.CallDigest(c.Server.Slug, c.Name, same)
	}
	return &f
}
