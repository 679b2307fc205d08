package vendortune

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"

	"modelgate/internal/stateplane/vendorcall"
)

// mistralVendor returns the API of Mistral. Its jobs have no place for an id of the gateway.
// Events and checkpoints are parts of the job.
// https://docs.mistral.ai/api/#tag/fine-tuning
func mistralVendor() *Vendor {
	return &Vendor{
		states: map[string]State{
			"VALIDATING":             ValidatingFiles,
			"VALIDATED":              Queued,
			"QUEUED":                 Queued,
			"STARTED":                Running,
			"RUNNING":                Running,
			"SUCCESS":                Succeeded,
			"FAILED":                 Failed,
			"FAILED_VALIDATION":      Failed,
			"CANCELLATION_REQUESTED": Cancelled,
			"CANCELLED":              Cancelled,
		},
		methods: []method{{supervised, under("hyperparameters",
			parameter{name: "n_epochs", field: "epochs"},
			parameter{name: "learning_rate", field: "learning_rate"},
			parameter{name: "training_steps", field: "training_steps"},
			parameter{name: "weight_decay", field: "weight_decay"},
			parameter{name: "warmup_fraction", field: "warmup_fraction"},
			parameter{name: "seq_len", field: "seq_len"},
			parameter{name: "fim_ratio", field: "fim_ratio"},
		)}},
		suffix: 18, noSeed: true,
		tracker: &tracker{project: "project", name: "run_name", key: "api_key"},
		create:  mistralCreate, get: mistralGet, list: mistralList,
		cancel: postVerb("/fine_tuning/jobs/", "/cancel"),
		events: mistralEvents, checkpoints: mistralCheckpoints,
	}
}

// mistralJob is a job of Mistral.
type mistralJob struct {
	ID              string   `json:"id"`
	Status          string   `json:"status"`
	Model           string   `json:"model"`
	FineTunedModel  string   `json:"fine_tuned_model"`
	CreatedAt       moment   `json:"created_at"`
	ModifiedAt      moment   `json:"modified_at"`
	TrainingFiles   []string `json:"training_files"`
	ValidationFiles []string `json:"validation_files"`
	TrainedTokens   *int64   `json:"trained_tokens"`
	Events          []struct {
		Name      string          `json:"name"`
		Data      json.RawMessage `json:"data"`
		CreatedAt moment          `json:"created_at"`
	} `json:"events"`
	Checkpoints []struct {
		Metrics    map[string]*float64 `json:"metrics"`
		StepNumber int64               `json:"step_number"`
		CreatedAt  moment              `json:"created_at"`
	} `json:"checkpoints"`
}

func mistralCreate(ctx context.Context, s *session, in *Input) (*Job, error) {
	o := object{
		"model": in.Model, "training_files": []object{{"file_id": in.TrainingFile}}, "hyperparameters": object{}, "auto_start": true,
	}
	if in.ValidationFile != "" {
		o["validation_files"] = []string{in.ValidationFile}
	}
	o.setText("suffix", in.Suffix)
	s.setParameters(o, in)
	if len(in.integrations) > 0 {
		tracked := object{"type": wandb}
		s.setIntegration(tracked, in)
		o["integrations"] = []object{tracked}
	}
	var raw json.RawMessage
	if err := s.client.JSON(ctx, &vendorcall.Request{Method: "POST", Path: "/fine_tuning/jobs"}, o, &raw); err != nil {
		return nil, err
	}
	_, job, err := s.decodeMistral(raw)
	return job, err
}

func mistralGet(ctx context.Context, s *session, id string) (*Job, error) {
	_, job, err := s.mistralJob(ctx, id)
	return job, err
}

func (s *session) mistralJob(ctx context.Context, id string) (*mistralJob, *Job, error) {
	var raw json.RawMessage
	r := &vendorcall.Request{Method: "GET", Path: "/fine_tuning/jobs/" + url.PathEscape(id)}
	if err := s.client.JSON(ctx, r, nil, &raw); err != nil {
		return nil, nil, err
	}
	return s.decodeMistral(raw)
}

func (s *session) decodeMistral(raw json.RawMessage) (*mistralJob, *Job, error) {
	var m mistralJob
	if json.Unmarshal(raw, &m) != nil || m.ID == "" {
		return nil, nil, s.decodeError()
	}
	job := &Job{
		ID: m.ID, CreatedAt: int64(m.CreatedAt), Model: m.Model, FineTunedModel: optional(m.FineTunedModel), ProviderStatus: m.Status,
		FinishedAt: m.ModifiedAt.optional(), TrainedTokens: m.TrainedTokens, Hyperparameters: s.parameters(supervised, raw),
	}
	if len(m.TrainingFiles) > 0 {
		job.TrainingFile = m.TrainingFiles[0]
	}
	if len(m.ValidationFiles) > 0 {
		job.ValidationFile = &m.ValidationFiles[0]
	}
	job.Status, job.UnknownStatus = s.state(m.Status)
	for _, e := range m.Events {
		if reason := mistralReason(e.Data); reason != "" && job.Error == nil {
			job.Error = &JobError{Message: reason}
		}
	}
	job.normalise()
	return &m, job, nil
}

// mistralReason returns the error in the data of an event, or an empty string.
func mistralReason(data json.RawMessage) string {
	var d struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(data, &d) != nil {
		return ""
	}
	return d.Error
}

// mistralList numbers its pages from 0; the number is the cursor.
func mistralList(ctx context.Context, s *session, p Page) (*Jobs, error) {
	n, _ := strconv.Atoi(p.After) // zero for the first page
	size := p.limit(100)
	q := url.Values{"page": {strconv.Itoa(n)}, "page_size": {strconv.Itoa(size)}}
	var page struct {
		Data  []json.RawMessage `json:"data"`
		Total int               `json:"total"`
	}
	if err := s.client.JSON(ctx, &vendorcall.Request{Method: "GET", Path: "/fine_tuning/jobs", Query: q.Encode()}, nil, &page); err != nil {
		return nil, err
	}
	jobs := &Jobs{}
	for _, raw := range page.Data {
		_, job, err := s.decodeMistral(raw)
		if err != nil {
			return nil, err
		}
		jobs.Data = append(jobs.Data, job)
	}
	if len(page.Data) > 0 && (n+1)*size < page.Total {
		jobs.Next = strconv.Itoa(n + 1)
	}
	return jobs, nil
}

func mistralEvents(ctx context.Context, s *session, id string, p Page) (*List[Event], error) {
	m, _, err := s.mistralJob(ctx, id)
	if err != nil {
		return nil, err
	}
	var list []Event
	for _, e := range m.Events {
		event := Event{CreatedAt: int64(e.CreatedAt), Message: e.Name, Data: e.Data}
		if reason := mistralReason(e.Data); reason != "" {
			event.Level, event.Message = "error", e.Name+": "+reason
		}
		list = append(list, event)
	}
	return paginate(newestFirst(id, list), p)
}

// mistralCheckpoints have no names of models: the API has them for metrics.
func mistralCheckpoints(ctx context.Context, s *session, id string, p Page) (*List[Checkpoint], error) {
	m, _, err := s.mistralJob(ctx, id)
	if err != nil {
		return nil, err
	}
	var list []Checkpoint
	for _, c := range m.Checkpoints {
		one := Checkpoint{CreatedAt: int64(c.CreatedAt), StepNumber: c.StepNumber, Metrics: map[string]float64{}}
		for name, value := range c.Metrics {
			if value != nil {
				one.Metrics[name] = *value
			}
		}
		list = append(list, one)
	}
	return paginate(lastStepFirst(id, list), p)
}
