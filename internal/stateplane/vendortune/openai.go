package vendortune

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"strconv"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/stateplane/vendorcall"
)

// ownIDKey is the name under which a vendor keeps the id of the gateway.
const ownIDKey = "gateway_job_id"

// openaiStates are the states of OpenAI.
// https://platform.openai.com/docs/api-reference/fine-tuning/object
var openaiStates = map[string]State{
	"validating_files": ValidatingFiles,
	"queued":           Queued,
	"running":          Running,
	"paused":           Running,
	"succeeded":        Succeeded,
	"failed":           Failed,
	"cancelled":        Cancelled,
}

func openaiVendor() *Vendor {
	return &Vendor{
		states: openaiStates, suffix: maxSuffix, trackers: true, anyMembers: true,
		methods: []method{{name: supervised}, {name: dpo}, {name: reinforcement}},
		create:  openaiCreate, get: openaiGet, list: openaiList, find: findInList,
		cancel: postVerb("/fine_tuning/jobs/", "/cancel"), pause: postVerb("/fine_tuning/jobs/", "/pause"),
		resume: postVerb("/fine_tuning/jobs/", "/resume"),
		events: openaiEvents, checkpoints: openaiCheckpoints,
	}
}

// azureVendor differs in further words for states, and in dated versions of the API, which
// have neither methods nor metadata.
// https://learn.microsoft.com/rest/api/azureopenai/fine-tuning
func azureVendor() *Vendor {
	v := openaiVendor()
	v.states = map[string]State{
		"created":        Queued,
		"pending":        Queued,
		"notRunning":     Queued,
		"pausing":        Running,
		"resuming":       Running,
		"postprocessing": Running,
		"cancelling":     Cancelled,
		"canceled":       Cancelled,
		"deleted":        Cancelled,
	}
	maps.Copy(v.states, openaiStates)
	v.create = azureCreate
	v.marked = func(s *session) bool { return !s.dated() }
	return v
}

// lastDate is the last version of Azure's API that is a plain date. Later ones have the
// parameters of OpenAI.
const lastDate = "2024-10-21"

func (s *session) dated() bool {
	version := s.options["api_version"]
	return version != "" && version <= lastDate
}

func openaiCreate(ctx context.Context, s *session, in *Input) (*Job, error) {
	edits, err := in.openaiEdits()
	if err != nil {
		return nil, err
	}
	return s.postOpenAI(ctx, in, edits)
}

// azureCreate lifts the hyper-parameters of the method to the top level for versions of the
// API that have no method.
func azureCreate(ctx context.Context, s *session, in *Input) (*Job, error) {
	if !s.dated() {
		return openaiCreate(ctx, s, in)
	}
	if in.methodType != supervised {
		return nil, refuse("method.type", "provider %q has no training of the type %q with api_version %s: use v1", s.id, in.methodType,
			s.options["api_version"])
	}
	values := map[string]json.RawMessage{}
	for name, value := range in.hyperparameters {
		values[name] = value.raw
	}
	lifted, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	return s.postOpenAI(ctx, in, append(in.fileEdits(), jsonedit.Edit{Name: "hyperparameters", Value: lifted},
		jsonedit.Edit{Name: "method"}, jsonedit.Edit{Name: "metadata"}))
}

// fileEdits returns the changes to the body that name the model and the files as the provider
// does.
func (in *Input) fileEdits() []jsonedit.Edit {
	edits := []jsonedit.Edit{
		{Name: "model", Value: jsonedit.AppendString(nil, in.Model)},
		{Name: "training_file", Value: jsonedit.AppendString(nil, in.TrainingFile)},
	}
	if in.ValidationFile != "" {
		edits = append(edits, jsonedit.Edit{Name: "validation_file", Value: jsonedit.AppendString(nil, in.ValidationFile)})
	}
	for name := range ofGateway {
		edits = append(edits, jsonedit.Edit{Name: name})
	}
	return edits
}

// openaiEdits adds the id of the gateway to the metadata. A client that uses all pairs
// leaves no place for it.
func (in *Input) openaiEdits() ([]jsonedit.Edit, error) {
	edits := in.fileEdits()
	if in.OwnID == "" || len(in.Metadata) >= maxMetadata {
		return edits, nil
	}
	metadata := map[string]string{ownIDKey: in.OwnID}
	maps.Copy(metadata, in.Metadata)
	value, err := json.Marshal(metadata)
	return append(edits, jsonedit.Edit{Name: "metadata", Value: value}), err
}

func (s *session) postOpenAI(ctx context.Context, in *Input, edits []jsonedit.Edit) (*Job, error) {
	var d jsonedit.Doc
	if err := d.Scan(in.body); err != nil {
		return nil, err
	}
	return s.openaiJob(ctx, "POST", "/fine_tuning/jobs", json.RawMessage(d.Apply(nil, edits...)))
}

func openaiGet(ctx context.Context, s *session, id string) (*Job, error) {
	return s.openaiJob(ctx, "GET", "/fine_tuning/jobs/"+url.PathEscape(id), nil)
}

func (s *session) openaiJob(ctx context.Context, method, path string, in any) (*Job, error) {
	var raw json.RawMessage
	if err := s.client.JSON(ctx, &vendorcall.Request{Method: method, Path: path}, in, &raw); err != nil {
		return nil, err
	}
	return s.decodeOpenAI(raw)
}

// decodeOpenAI reads a job that has the shape already. Members that the shape lacks stay.
func (s *session) decodeOpenAI(raw json.RawMessage) (*Job, error) {
	job := &Job{}
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil || json.Unmarshal(raw, job) != nil || job.ID == "" {
		return nil, s.decodeError()
	}
	job.ProviderStatus = string(job.Status)
	job.Status, job.UnknownStatus = s.state(job.ProviderStatus)
	job.Extra = openaiExtra(all)
	job.ownID = job.Metadata[ownIDKey]
	if delete(job.Metadata, ownIDKey); len(job.Metadata) == 0 {
		job.Metadata = nil
	}
	job.normalise()
	return job, nil
}

// openaiExtra returns the members of a job that Job has no field for.
func openaiExtra(all map[string]json.RawMessage) map[string]json.RawMessage {
	known, err := json.Marshal(Job{Method: json.RawMessage("{}")})
	if err != nil {
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(known, &fields) != nil {
		return nil
	}
	for name := range fields {
		delete(all, name)
	}
	return all
}

func (s *session) decodeError() error {
	return apierr.New(apierr.UpstreamFailed, "provider %q sent a job that is not of the form in its documentation", s.id)
}

func openaiList(ctx context.Context, s *session, p Page) (*Jobs, error) {
	var page struct {
		Data    []json.RawMessage `json:"data"`
		HasMore bool              `json:"has_more"`
	}
	r := &vendorcall.Request{Method: "GET", Path: "/fine_tuning/jobs", Query: p.query(100)}
	if err := s.client.JSON(ctx, r, nil, &page); err != nil {
		return nil, err
	}
	jobs := &Jobs{}
	for _, raw := range page.Data {
		job, err := s.decodeOpenAI(raw)
		if err != nil {
			return nil, err
		}
		jobs.Data = append(jobs.Data, job)
	}
	if n := len(jobs.Data); page.HasMore && n > 0 {
		jobs.Next = jobs.Data[n-1].ID
	}
	return jobs, nil
}

// query returns after and limit as OpenAI names them.
func (p Page) query(most int) string {
	q := url.Values{"limit": {strconv.Itoa(p.limit(most))}}
	if p.After != "" {
		q.Set("after", p.After)
	}
	return q.Encode()
}

func openaiEvents(ctx context.Context, s *session, id string, p Page) (*List[Event], error) {
	return openaiPage[Event](ctx, s, "/fine_tuning/jobs/"+url.PathEscape(id)+"/events", p)
}

func openaiCheckpoints(ctx context.Context, s *session, id string, p Page) (*List[Checkpoint], error) {
	return openaiPage[Checkpoint](ctx, s, "/fine_tuning/jobs/"+url.PathEscape(id)+"/checkpoints", p)
}

// openaiPage reads a page whose items have the shape already.
func openaiPage[T interface{ listID() string }](ctx context.Context, s *session, path string, p Page) (*List[T], error) {
	var page List[T]
	if err := s.client.JSON(ctx, &vendorcall.Request{Method: "GET", Path: path, Query: p.query(100)}, nil, &page); err != nil {
		return nil, err
	}
	return newList(page.Data, page.HasMore), nil
}

// postVerb returns a change that is a request without a body below the path of a job.
func postVerb(before, after string) func(context.Context, *session, string) error {
	return func(ctx context.Context, s *session, id string) error {
		return s.client.JSON(ctx, &vendorcall.Request{Method: "POST", Path: before + url.PathEscape(id) + after}, nil, nil)
	}
}

// maxPages is how many pages of jobs are searched for an id of the gateway. A job is
// searched for shortly after its creation, and vendors list the newest first.
const maxPages = 5

// findInList searches the newest jobs for one with an id of the gateway, as a name allows it
// or in full.
func findInList(ctx context.Context, s *session, ownID string) (*Job, error) {
	p := Page{Limit: 100}
	for range maxPages {
		jobs, err := s.list(ctx, s, p)
		if err != nil {
			return nil, err
		}
		for _, job := range jobs.Data {
			if job.ownID == ownID || job.ownID == resourceName(ownID) {
				return job, nil
			}
		}
		if jobs.Next == "" {
			break
		}
		p.After = jobs.Next
	}
	return nil, nil
}
