package vendortune

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"path"
	"strconv"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/vendorcall"
)

// fireworksVendor returns the API of Fireworks. Jobs of the two types of training are different
// collections; the client chooses the id of a job, and the gateway derives it from its own.
// https://docs.fireworks.ai/api-reference/create-supervised-fine-tuning-job
func fireworksVendor() *Vendor {
	shared := []parameter{
		{name: "n_epochs", field: "epochs"},
		{name: "batch_size", field: "batchSizeSamples"},
		{name: "learning_rate", field: "learningRate"},
		{name: "learning_rate_warmup_steps", field: "learningRateWarmupSteps"},
		{name: "gradient_accumulation_steps", field: "gradientAccumulationSteps"},
		{name: "lora_rank", field: "loraRank"},
		{name: "max_context_length", field: "maxContextLength"},
	}
	return &Vendor{
		states: map[string]State{
			"JOB_STATE_UNSPECIFIED":            Queued,
			"JOB_STATE_PENDING":                Queued,
			"JOB_STATE_RE_QUEUEING":            Queued,
			"JOB_STATE_VALIDATING":             ValidatingFiles,
			"JOB_STATE_CREATING":               Running,
			"JOB_STATE_CREATING_INPUT_DATASET": Running,
			"JOB_STATE_RUNNING":                Running,
			"JOB_STATE_EVALUATION":             Running,
			"JOB_STATE_WRITING_RESULTS":        Running,
			"JOB_STATE_IDLE":                   Running,
			"JOB_STATE_PAUSED":                 Running,
			"JOB_STATE_COMPLETED":              Succeeded,
			"JOB_STATE_EARLY_STOPPED":          Succeeded,
			"JOB_STATE_FAILED":                 Failed,
			"JOB_STATE_EXPIRED":                Failed,
			"JOB_STATE_CANCELLING":             Cancelled,
			"JOB_STATE_CANCELLED":              Cancelled,
			"JOB_STATE_DELETING":               Cancelled,
			"JOB_STATE_DELETING_CLEANING_UP":   Cancelled,
		},
		methods: []method{
			{supervised, shared},
			{dpo, append(under("trainingConfig", shared...), parameter{name: "beta", field: "lossConfig.dpo.beta"})},
		},
		suffix: 63, noSeed: true,
		tracker: &tracker{
			project: "wandbConfig.project", entity: "wandbConfig.entity", key: "wandbConfig.apiKey", enabled: "wandbConfig.enabled",
		},
		create: fireworksCreate, get: fireworksGet, list: fireworksList, find: fireworksFind,
		cancel: fireworksVerb(":cancel"), resume: fireworksVerb(":resume"),
	}
}

// fireworksCollections are the collections of jobs by their type of training, and how the
// query of a new job is called that sets its id. The id of a DPO job begins with its
// collection, since the others were there first.
var fireworksCollections = map[string]struct{ name, query string }{
	supervised: {"supervisedFineTuningJobs", "supervisedFineTuningJobId"},
	dpo:        {"dpoJobs", "dpoJobId"},
}

// fireworksJob is a job of Fireworks. DPO jobs have the model in trainingConfig.
type fireworksJob struct {
	Name          string `json:"name"`
	State         string `json:"state"`
	Dataset       string `json:"dataset"`
	Evaluation    string `json:"evaluationDataset"`
	BaseModel     string `json:"baseModel"`
	OutputModel   string `json:"outputModel"`
	CreateTime    moment `json:"createTime"`
	CompletedTime moment `json:"completedTime"`
	Config        struct {
		BaseModel   string `json:"baseModel"`
		OutputModel string `json:"outputModel"`
	} `json:"trainingConfig"`
	Status struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"status"`
}

// callFireworks sends a request below the path of the account.
func (s *session) callFireworks(ctx context.Context, r *vendorcall.Request, in, out any) error {
	account, err := s.option("account_id")
	if err != nil {
		return err
	}
	r.Service, r.Path = vendorcall.ServiceHost, "/v1/accounts/"+account+"/"+r.Path
	return s.client.JSON(ctx, r, in, out)
}

func fireworksCreate(ctx context.Context, s *session, in *Input) (*Job, error) {
	account, err := s.option("account_id")
	if err != nil {
		return nil, err
	}
	o := object{"dataset": qualified(account, "datasets", in.TrainingFile)}
	config := ""
	if in.methodType == dpo {
		config = "trainingConfig."
		o.set("lossConfig.method", "DPO")
		if in.ValidationFile != "" {
			return nil, refuse("validation_file", "provider %q has no validation file for DPO: leave it out", s.id)
		}
	}
	o.set(config+"baseModel", qualified("fireworks", "models", in.Model))
	if in.Suffix != "" {
		o["displayName"] = in.Suffix
		o.set(config+"outputModel", qualified(account, "models", resourceName(in.Suffix)))
	}
	if in.ValidationFile != "" {
		o["evaluationDataset"] = qualified(account, "datasets", in.ValidationFile)
	}
	s.setParameters(o, in)
	s.setIntegration(o, in)
	collection := fireworksCollections[in.methodType]
	r := &vendorcall.Request{Method: "POST", Path: collection.name}
	if in.OwnID != "" {
		r.Query = collection.query + "=" + url.QueryEscape(resourceName(in.OwnID))
	}
	return s.fireworksJob(ctx, r, o)
}

// qualified returns the name of a resource of an account, unless it has one.
func qualified(account, collection, name string) string {
	if strings.HasPrefix(name, "accounts/") {
		return name
	}
	return "accounts/" + account + "/" + collection + "/" + name
}

// fireworksPath returns the path of a job below the account.
func fireworksPath(id string) string {
	collection := fireworksCollections[supervised].name
	if prefix := fireworksCollections[dpo].name; strings.HasPrefix(id, prefix+"/") {
		collection = prefix
	}
	return collection + "/" + url.PathEscape(path.Base(id))
}

func fireworksGet(ctx context.Context, s *session, id string) (*Job, error) {
	return s.fireworksJob(ctx, &vendorcall.Request{Method: "GET", Path: fireworksPath(id)}, nil)
}

func (s *session) fireworksJob(ctx context.Context, r *vendorcall.Request, in any) (*Job, error) {
	var raw json.RawMessage
	if err := s.callFireworks(ctx, r, in, &raw); err != nil {
		return nil, err
	}
	return s.decodeFireworks(raw)
}

func (s *session) decodeFireworks(raw json.RawMessage) (*Job, error) {
	var f fireworksJob
	if json.Unmarshal(raw, &f) != nil || f.Name == "" {
		return nil, s.decodeError()
	}
	id, methodType := path.Base(f.Name), supervised
	if collection := fireworksCollections[dpo].name; strings.Contains(f.Name, "/"+collection+"/") {
		id, methodType = collection+"/"+id, dpo
	}
	job := &Job{
		ID: id, CreatedAt: int64(f.CreateTime), FinishedAt: f.CompletedTime.optional(), ProviderStatus: f.State,
		Model: cmp.Or(f.BaseModel, f.Config.BaseModel), FineTunedModel: optional(cmp.Or(f.OutputModel, f.Config.OutputModel)),
		TrainingFile: f.Dataset, ValidationFile: optional(f.Evaluation), Hyperparameters: s.parameters(methodType, raw),
	}
	if f.Status.Message != "" {
		job.Error = &JobError{Code: f.Status.Code, Message: f.Status.Message}
	}
	job.Status, job.UnknownStatus = s.state(f.State)
	job.normalise()
	return job, nil
}

// fireworksList lists the collections one after the other: the cursor is the collection,
// and its token.
func fireworksList(ctx context.Context, s *session, p Page) (*Jobs, error) {
	collection, token, ok := strings.Cut(p.After, "?")
	if !ok {
		collection, token = fireworksCollections[supervised].name, ""
	}
	var page struct {
		Supervised []json.RawMessage `json:"supervisedFineTuningJobs"`
		DPO        []json.RawMessage `json:"dpoJobs"`
		Next       string            `json:"nextPageToken"`
	}
	q := url.Values{"pageSize": {strconv.Itoa(p.limit(200))}}
	if token != "" {
		q.Set("pageToken", token)
	}
	r := &vendorcall.Request{Method: "GET", Path: url.PathEscape(collection), Query: q.Encode()}
	if err := s.callFireworks(ctx, r, nil, &page); err != nil {
		return nil, err
	}
	jobs := &Jobs{}
	for _, raw := range append(page.Supervised, page.DPO...) {
		job, err := s.decodeFireworks(raw)
		if err != nil {
			return nil, err
		}
		jobs.Data = append(jobs.Data, job)
	}
	switch {
	case page.Next != "":
		jobs.Next = collection + "?" + page.Next
	case collection == fireworksCollections[supervised].name:
		jobs.Next = fireworksCollections[dpo].name + "?"
	}
	return jobs, nil
}

// fireworksFind asks for the job that has the id in either collection.
func fireworksFind(ctx context.Context, s *session, ownID string) (*Job, error) {
	for _, id := range []string{resourceName(ownID), fireworksCollections[dpo].name + "/" + resourceName(ownID)} {
		job, err := fireworksGet(ctx, s, id)
		if err == nil || !apierr.IsNotFound(err) {
			return job, err
		}
	}
	return nil, nil
}

func fireworksVerb(verb string) func(context.Context, *session, string) error {
	return func(ctx context.Context, s *session, id string) error {
		return s.callFireworks(ctx, &vendorcall.Request{Method: "POST", Path: fireworksPath(id) + verb}, object{}, nil)
	}
}
