package tuning

import (
	"encoding/json"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/model/llm"
	"modelgate/internal/provider"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/stateplane/vendortune"
	"modelgate/internal/store"
)

// shownJob returns a job as its provider described it last.
func shownJob(d *details) (*vendortune.Job, error) {
	job := new(vendortune.Job)
	if err := json.Unmarshal(d.Shown, job); err != nil {
		return nil, apierr.New(apierr.Internal, "the record of a fine-tuning job is unreadable").WithCause(err)
	}
	return job, nil
}

// bill returns what a job is settled with: the tokens that its provider reports, at the price of
// training. What is not reported, or has no price, is unknown and not 0.
func (r *Runner) bill(o *store.Object, job *vendortune.Job, at *provider.Target) *reqlog.Settlement {
	s := &reqlog.Settlement{Outcome: reqlog.Answered, Status: 200, Time: r.deps.Now()}
	if job.TrainedTokens == nil || *job.TrainedTokens < 0 {
		if job.Status == vendortune.Failed {
			s.Outcome = reqlog.Refused
		}
		return s
	}
	s.Usage = llm.Usage{Input: *job.TrainedTokens, Known: true}
	p, ok := at.Price(r.deps.Prices(), job.Model, "", o.CreatedAt)
	if !ok {
		return s
	}
	if cost, known := p.TrainingCost(*job.TrainedTokens); known {
		s.Cost, s.Price, s.Priced = cost, p.Row()+" training", true
	}
	return s
}

// entry returns the log entry of a job. Its id is that of the job, so that it is one however
// often it is recorded.
func (r *Runner) entry(o *store.Object, d *details, s *reqlog.Settlement, job *vendortune.Job, at *provider.Target) *reqlog.Entry {
	hex := strings.TrimPrefix(o.ID, jobPrefix)
	var id reqlog.ID
	if len(hex) == 32 { // made by ObjectID
		id, _ = reqlog.ParseID(hex[:8] + "-" + hex[8:12] + "-" + hex[12:16] + "-" + hex[16:20] + "-" + hex[20:])
	}
	e := &reqlog.Entry{
		ID: id, Time: o.CreatedAt,
		Trace:  reqlog.Trace{TraceID: d.TraceID},
		Sender: reqlog.Sender{Organisation: o.Organisation, Workspace: o.Workspace, KeyID: o.KeyID},
		Input: reqlog.Input{
			Method: "POST", Path: api.BasePath + root, Operation: api.FineTuning, Model: job.Model, Metadata: job.Metadata,
		},
		Origin: reqlog.Origin{Provider: at.ID, Slug: at.Slug, UpstreamModel: job.Model, CacheStatus: "DISABLED"},
		Result: reqlog.Result{Status: s.Status, Usage: s.Usage, Finish: string(job.Status)},
		Charge: reqlog.Charge{Cost: s.Cost, Priced: s.Priced, Price: s.Price},
		Level:  reqlog.LevelMetadata,
	}
	e.Total = r.deps.Now().Sub(o.CreatedAt)
	return e
}
