package batches

import (
	"strings"

	"modelgate/api"
	"modelgate/internal/model/llm"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/stateplane/vendorbatch"
)

// bill returns what a batch is settled with. An unknown price stays unknown, and does not become 0.
func (f *followed) bill(b *vendorbatch.Batch, x *results) *reqlog.Settlement {
	s := &reqlog.Settlement{Outcome: reqlog.Answered, Status: 200, Usage: x.total, Time: f.Now()}
	if x.total.Known && x.priced {
		s.Cost, s.Price, s.Priced = x.cost, x.price, true
	}
	if b.Status == vendorbatch.Failed && !x.total.Known {
		s.Outcome = reqlog.Refused
	}
	return s
}

// entry returns the log entry of a batch. Its id is that of the batch, so that it is one
// however often it is recorded.
func (f *followed) entry(b *vendorbatch.Batch, s *reqlog.Settlement) *reqlog.Entry {
	hex := f.object.ID[strings.LastIndexByte(f.object.ID, '_')+1:]
	id, _ := reqlog.ParseID(hex[:8] + "-" + hex[8:12] + "-" + hex[12:16] + "-" + hex[16:20] + "-" + hex[20:]) // made by ObjectID
	e := &reqlog.Entry{
		ID: id, Time: f.object.CreatedAt,
		Trace:  reqlog.Trace{TraceID: f.TraceID},
		Sender: reqlog.Sender{Organisation: f.object.Organisation, Workspace: f.object.Workspace, KeyID: f.object.KeyID},
		Input:  reqlog.Input{Method: "POST", Path: api.BasePath + "/batches", Operation: api.Batches, Model: b.Model, Metadata: f.Batch.Metadata},
		Origin: reqlog.Origin{Provider: f.target.ID, Slug: f.target.Slug, UpstreamModel: b.Model, CacheStatus: "DISABLED"},
		Result: reqlog.Result{Status: s.Status, Usage: s.Usage, Finish: string(b.Status)},
		Charge: reqlog.Charge{Cost: s.Cost, Priced: s.Priced, Price: s.Price},
		Level:  reqlog.LevelMetadata,
	}
	e.Total = f.Now().Sub(f.object.CreatedAt)
	return e
}

// sumUsage returns the sum of two usages.
func sumUsage(a, b llm.Usage) llm.Usage {
	a.Known, a.Estimated = true, a.Estimated || b.Estimated
	for _, part := range [...][2]*int64{
		{&a.Input, &b.Input}, {&a.CachedInput, &b.CachedInput}, {&a.CacheWrite5m, &b.CacheWrite5m}, {&a.CacheWrite1h, &b.CacheWrite1h},
		{&a.Output, &b.Output}, {&a.Reasoning, &b.Reasoning}, {&a.InputAudio, &b.InputAudio}, {&a.OutputAudio, &b.OutputAudio},
	} {
		*part[0] += *part[1]
	}
	return a
}
