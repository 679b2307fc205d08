package vendortune

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"path"
	"strconv"

	"modelgate/internal/stateplane/vendorcall"
)

// vertexVendor returns the API of tuning jobs of Vertex AI. Labels carry the id of the gateway.
// https://cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1/projects.locations.tuningJobs
func vertexVendor() *Vendor {
	shared := []parameter{
		{name: "n_epochs", field: "epochCount"},
		{name: "learning_rate_multiplier", field: "learningRateMultiplier"},
		{name: "adapter_size", field: "adapterSize", form: adapterSize},
	}
	return &Vendor{
		states: map[string]State{
			"JOB_STATE_UNSPECIFIED":         Queued,
			"JOB_STATE_QUEUED":              Queued,
			"JOB_STATE_PENDING":             Queued,
			"JOB_STATE_RUNNING":             Running,
			"JOB_STATE_UPDATING":            Running,
			"JOB_STATE_PAUSED":              Running,
			"JOB_STATE_SUCCEEDED":           Succeeded,
			"JOB_STATE_PARTIALLY_SUCCEEDED": Succeeded,
			"JOB_STATE_FAILED":              Failed,
			"JOB_STATE_CANCELLING":          Cancelled,
			"JOB_STATE_CANCELLED":           Cancelled,
			"JOB_STATE_EXPIRED":             Cancelled,
		},
		methods: []method{
			{supervised, under(vertexSpecs[supervised]+".hyperParameters", append(shared,
				parameter{name: "batch_size", field: "batchSize"}, parameter{name: "learning_rate", field: "learningRate"})...)},
			{dpo, under(vertexSpecs[dpo]+".hyperParameters", append(shared, parameter{name: "beta", field: "beta"})...)},
		},
		suffix: maxSuffix, noSeed: true,
		create: vertexCreate, get: vertexGet, list: vertexList, cancel: vertexCancel, checkpoints: vertexCheckpoints, find: findInList,
	}
}

// vertexSpecs are the members of a job by its type of training.
var vertexSpecs = map[string]string{supervised: "supervisedTuningSpec", dpo: "preferenceOptimizationSpec"}

// vertexJob is a job of Vertex AI.
type vertexJob struct {
	Name       string            `json:"name"`
	State      string            `json:"state"`
	BaseModel  string            `json:"baseModel"`
	CreateTime moment            `json:"createTime"`
	EndTime    moment            `json:"endTime"`
	Labels     map[string]string `json:"labels"`
	Error      struct {
		Code    json.Number `json:"code"`
		Message string      `json:"message"`
	} `json:"error"`
	TunedModel struct {
		Model       string `json:"model"`
		Endpoint    string `json:"endpoint"`
		Checkpoints []struct {
			ID       string      `json:"checkpointId"`
			Step     json.Number `json:"step"`
			Endpoint string      `json:"endpoint"`
		} `json:"checkpoints"`
	} `json:"tunedModel"`
}

// vertexBase returns the path of the account's jobs.
func (s *session) vertexBase() (string, error) {
	project, err := s.option("project_id")
	if err != nil {
		return "", err
	}
	region, err := s.option("region")
	return "/v1/projects/" + project + "/locations/" + region + "/tuningJobs", err
}

// callVertex sends a request below the path of the account's jobs.
func (s *session) callVertex(ctx context.Context, r *vendorcall.Request, in, out any) error {
	base, err := s.vertexBase()
	if err != nil {
		return err
	}
	r.Path = base + r.Path
	return s.client.JSON(ctx, r, in, out)
}

func vertexCreate(ctx context.Context, s *session, in *Input) (*Job, error) {
	spec := vertexSpecs[in.methodType]
	o := object{"baseModel": in.Model}
	o.setText("tunedModelDisplayName", in.Suffix)
	if in.OwnID != "" {
		o["labels"] = object{ownIDKey: resourceName(in.OwnID)}
	}
	training, err := s.storageURI(in.TrainingFile, "training_file", "gs://")
	if err != nil {
		return nil, err
	}
	o.set(spec+".trainingDatasetUri", training)
	if in.ValidationFile != "" {
		validation, err := s.storageURI(in.ValidationFile, "validation_file", "gs://")
		if err != nil {
			return nil, err
		}
		o.set(spec+".validationDatasetUri", validation)
	}
	s.setParameters(o, in)
	return s.vertexJob(ctx, &vendorcall.Request{Method: "POST"}, o)
}

func vertexGet(ctx context.Context, s *session, id string) (*Job, error) {
	return s.vertexJob(ctx, &vendorcall.Request{Method: "GET", Path: vertexID(id)}, nil)
}

// vertexID returns the path of a job: its id is the last part of its name.
func vertexID(id string) string { return "/" + url.PathEscape(path.Base(id)) }

func (s *session) vertexJob(ctx context.Context, r *vendorcall.Request, in any) (*Job, error) {
	var raw json.RawMessage
	if err := s.callVertex(ctx, r, in, &raw); err != nil {
		return nil, err
	}
	_, job, err := s.decodeVertex(raw)
	return job, err
}

func (s *session) decodeVertex(raw json.RawMessage) (*vertexJob, *Job, error) {
	var v vertexJob
	if json.Unmarshal(raw, &v) != nil || v.Name == "" {
		return nil, nil, s.decodeError()
	}
	methodType := supervised
	if valueAt(raw, vertexSpecs[dpo]) != nil {
		methodType = dpo
	}
	spec := vertexSpecs[methodType]
	job := &Job{
		ID: path.Base(v.Name), CreatedAt: int64(v.CreateTime), FinishedAt: v.EndTime.optional(), Model: v.BaseModel, ProviderStatus: v.State,
		TrainingFile: textAt(raw, spec+".trainingDatasetUri"), ValidationFile: optional(textAt(raw, spec+".validationDatasetUri")),
		FineTunedModel: optional(cmp.Or(v.TunedModel.Endpoint, v.TunedModel.Model)), Hyperparameters: s.parameters(methodType, raw),
	}
	job.ownID = v.Labels[ownIDKey]
	if v.Error.Message != "" {
		job.Error = &JobError{Code: v.Error.Code.String(), Message: v.Error.Message}
	}
	for _, stats := range []string{"supervisedTuningDataStats", "preferenceOptimizationDataStats"} {
		tokens := (parameter{}).read(valueAt(raw, "tuningDataStats."+stats+".totalBillableTokenCount"))
		if n, err := strconv.ParseInt(string(tokens), 10, 64); err == nil {
			job.TrainedTokens = &n
		}
	}
	job.Status, job.UnknownStatus = s.state(v.State)
	job.normalise()
	return &v, job, nil
}

// textAt returns the string at a path, or an empty one.
func textAt(raw json.RawMessage, path string) string {
	var text string
	if json.Unmarshal(valueAt(raw, path), &text) != nil {
		return ""
	}
	return text
}

func vertexList(ctx context.Context, s *session, p Page) (*Jobs, error) {
	q := url.Values{"pageSize": {strconv.Itoa(p.limit(100))}}
	if p.After != "" {
		q.Set("pageToken", p.After)
	}
	var page struct {
		Jobs []json.RawMessage `json:"tuningJobs"`
		Next string            `json:"nextPageToken"`
	}
	if err := s.callVertex(ctx, &vendorcall.Request{Method: "GET", Query: q.Encode()}, nil, &page); err != nil {
		return nil, err
	}
	jobs := &Jobs{Next: page.Next}
	for _, raw := range page.Jobs {
		_, job, err := s.decodeVertex(raw)
		if err != nil {
			return nil, err
		}
		jobs.Data = append(jobs.Data, job)
	}
	return jobs, nil
}

func vertexCancel(ctx context.Context, s *session, id string) error {
	return s.callVertex(ctx, &vendorcall.Request{Method: "POST", Path: vertexID(id) + ":cancel"}, object{}, nil)
}

func vertexCheckpoints(ctx context.Context, s *session, id string, p Page) (*List[Checkpoint], error) {
	var raw json.RawMessage
	if err := s.callVertex(ctx, &vendorcall.Request{Method: "GET", Path: vertexID(id)}, nil, &raw); err != nil {
		return nil, err
	}
	v, _, err := s.decodeVertex(raw)
	if err != nil {
		return nil, err
	}
	var list []Checkpoint
	for _, c := range v.TunedModel.Checkpoints {
		step, _ := c.Step.Int64() // zero if there is none
		at := int64(max(v.EndTime, v.CreateTime))
		list = append(list, Checkpoint{CreatedAt: at, StepNumber: step, FineTunedModelCheckpoint: c.Endpoint})
	}
	return paginate(lastStepFirst(id, list), p)
}
