package vendortune

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"modelgate/internal/stateplane/vendorcall"
)

// togetherVendor returns the API of Together AI. Its jobs have no place for an id of the gateway.
// https://docs.together.ai/reference/post-fine-tunes
func togetherVendor() *Vendor {
	shared := []parameter{
		{name: "n_epochs", field: "n_epochs"},
		{name: "batch_size", field: "batch_size"},
		{name: "learning_rate", field: "learning_rate"},
		{name: "warmup_ratio", field: "warmup_ratio"},
		{name: "weight_decay", field: "weight_decay"},
		{name: "max_grad_norm", field: "max_grad_norm"},
		{name: "n_checkpoints", field: "n_checkpoints"},
		{name: "n_evals", field: "n_evals"},
	}
	return &Vendor{
		states: map[string]State{
			"pending":          Queued,
			"queued":           Queued,
			"running":          Running,
			"compressing":      Running,
			"uploading":        Running,
			"cancel_requested": Cancelled,
			"cancelled":        Cancelled,
			"user_error":       Failed,
			"error":            Failed,
			"completed":        Succeeded,
		},
		methods: []method{
			{supervised, shared},
			{dpo, append([]parameter{{name: "beta", field: "training_method.dpo_beta"}}, shared...)},
		},
		suffix:  40,
		tracker: &tracker{project: "wandb_project_name", name: "wandb_name", entity: "wandb_entity", key: "wandb_api_key"},
		create:  togetherCreate, get: togetherGet, list: togetherList,
		cancel: postVerb("/fine-tunes/", "/cancel"),
		events: togetherEvents, checkpoints: togetherCheckpoints,
	}
}

// togetherJob is a job of Together.
type togetherJob struct {
	ID             string          `json:"id"`
	Status         string          `json:"status"`
	CreatedAt      moment          `json:"created_at"`
	UpdatedAt      moment          `json:"updated_at"`
	Model          string          `json:"model"`
	OutputName     string          `json:"model_output_name"`
	ObjectName     string          `json:"model_object_name"`
	TrainingFile   string          `json:"training_file"`
	ValidationFile string          `json:"validation_file"`
	TokenCount     *int64          `json:"token_count"`
	Seed           int64           `json:"random_seed"`
	UserID         string          `json:"user_id"`
	Events         []togetherEvent `json:"events"`
	Method         struct {
		Method string `json:"method"`
	} `json:"training_method"`
	Progress struct {
		Available bool  `json:"estimate_available"`
		Seconds   int64 `json:"seconds_remaining"`
	} `json:"progress"`
}

// togetherEvent is an event of a job.
type togetherEvent struct {
	CreatedAt moment `json:"created_at"`
	Level     string `json:"level"`
	Message   string `json:"message"`
	Type      string `json:"type"`
}

func togetherCreate(ctx context.Context, s *session, in *Input) (*Job, error) {
	o := object{"model": in.Model, "training_file": in.TrainingFile}
	o.setText("validation_file", in.ValidationFile)
	o.setText("suffix", in.Suffix)
	if in.methodType == dpo {
		o.set("training_method.method", "dpo")
	}
	if in.Seed != nil {
		o["random_seed"] = *in.Seed
	}
	s.setParameters(o, in)
	s.setIntegration(o, in)
	return s.togetherJob(ctx, &vendorcall.Request{Method: "POST", Path: "/fine-tunes"}, o)
}

func togetherGet(ctx context.Context, s *session, id string) (*Job, error) {
	return s.togetherJob(ctx, &vendorcall.Request{Method: "GET", Path: "/fine-tunes/" + url.PathEscape(id)}, nil)
}

func (s *session) togetherJob(ctx context.Context, r *vendorcall.Request, in any) (*Job, error) {
	var raw json.RawMessage
	if err := s.client.JSON(ctx, r, in, &raw); err != nil {
		return nil, err
	}
	return s.decodeTogether(raw)
}

func (s *session) decodeTogether(raw json.RawMessage) (*Job, error) {
	var t togetherJob
	if json.Unmarshal(raw, &t) != nil || t.ID == "" {
		return nil, s.decodeError()
	}
	job := &Job{
		ID: t.ID, CreatedAt: int64(t.CreatedAt), Model: t.Model, OrganizationID: t.UserID, TrainingFile: t.TrainingFile, Seed: t.Seed,
		ValidationFile: optional(t.ValidationFile), FineTunedModel: optional(t.ObjectName), FinishedAt: t.UpdatedAt.optional(),
		TrainedTokens: t.TokenCount, ProviderStatus: t.Status,
	}
	if t.OutputName != "" {
		job.FineTunedModel = &t.OutputName
	}
	job.Status, job.UnknownStatus = s.state(t.Status)
	methodType := supervised
	if t.Method.Method == dpo {
		methodType = dpo
	}
	job.Hyperparameters = s.parameters(methodType, raw)
	if t.Progress.Available {
		at := time.Now().Unix() + t.Progress.Seconds
		job.EstimatedFinish = &at
	}
	for _, e := range t.Events {
		if e.Type == "job_error" {
			job.Error = &JobError{Message: e.Message}
		}
	}
	job.normalise()
	return job, nil
}

// optional returns nil for an empty string.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// togetherList returns all jobs: the API has no pages.
func togetherList(ctx context.Context, s *session, _ Page) (*Jobs, error) {
	var page struct {
		Data []json.RawMessage `json:"data"`
	}
	if err := s.client.JSON(ctx, &vendorcall.Request{Method: "GET", Path: "/fine-tunes"}, nil, &page); err != nil {
		return nil, err
	}
	jobs := &Jobs{}
	for _, raw := range page.Data {
		job, err := s.decodeTogether(raw)
		if err != nil {
			return nil, err
		}
		jobs.Data = append(jobs.Data, job)
	}
	return jobs, nil
}

// togetherLevels are the levels of events by Together's words.
var togetherLevels = map[string]string{
	"info": "info", "legacy_info": "info", "warning": "warn", "legacy_iwarning": "warn", "error": "error", "legacy_ierror": "error",
}

func togetherEvents(ctx context.Context, s *session, id string, p Page) (*List[Event], error) {
	var page struct {
		Data []togetherEvent `json:"data"`
	}
	r := &vendorcall.Request{Method: "GET", Path: "/fine-tunes/" + url.PathEscape(id) + "/events"}
	if err := s.client.JSON(ctx, r, nil, &page); err != nil {
		return nil, err
	}
	var list []Event
	for _, e := range page.Data {
		list = append(list, Event{CreatedAt: int64(e.CreatedAt), Level: togetherLevels[e.Level], Message: e.Message})
	}
	return paginate(newestFirst(id, list), p)
}

func togetherCheckpoints(ctx context.Context, s *session, id string, p Page) (*List[Checkpoint], error) {
	var page struct {
		Data []struct {
			CreatedAt  moment `json:"created_at"`
			Path       string `json:"path"`
			ObjectName string `json:"object_name"`
			Step       int64  `json:"step"`
		} `json:"data"`
	}
	r := &vendorcall.Request{Method: "GET", Path: "/fine-tunes/" + url.PathEscape(id) + "/checkpoints"}
	if err := s.client.JSON(ctx, r, nil, &page); err != nil {
		return nil, err
	}
	var list []Checkpoint
	for _, c := range page.Data {
		name := c.ObjectName
		if name == "" {
			name = c.Path
		}
		list = append(list, Checkpoint{CreatedAt: int64(c.CreatedAt), StepNumber: c.Step, FineTunedModelCheckpoint: name})
	}
	return paginate(lastStepFirst(id, list), p)
}
