package vendortune

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/vendorcall"
)

const coherePath = "/v1/finetuning/finetuned-models"

// cohereVendor returns the API of Cohere. A job is a model there: it is cancelled by deleting
// it, and its name carries the id of the gateway.
// https://docs.cohere.com/reference/createfinetunedmodel
func cohereVendor() *Vendor {
	return &Vendor{
		states: map[string]State{
			"STATUS_UNSPECIFIED":         Queued,
			"STATUS_QUEUED":              Queued,
			"STATUS_FINETUNING":          Running,
			"STATUS_PAUSED":              Running,
			"STATUS_DEPLOYING_API":       Running,
			"STATUS_READY":               Succeeded,
			"STATUS_TEMPORARILY_OFFLINE": Succeeded,
			"STATUS_FAILED":              Failed,
			"STATUS_DELETED":             Cancelled,
		},
		methods: []method{{supervised, under("settings.hyperparameters",
			parameter{name: "n_epochs", field: "train_epochs"},
			parameter{name: "batch_size", field: "train_batch_size"},
			parameter{name: "learning_rate", field: "learning_rate"},
			parameter{name: "early_stopping_patience", field: "early_stopping_patience"},
			parameter{name: "early_stopping_threshold", field: "early_stopping_threshold"},
			parameter{name: "lora_alpha", field: "lora_alpha"},
			parameter{name: "lora_rank", field: "lora_rank"},
		)}},
		suffix: maxSuffix, noSeed: true,
		tracker: &tracker{project: "settings.wandb.project", entity: "settings.wandb.entity", key: "settings.wandb.api_key"},
		create:  cohereCreate, get: cohereGet, list: cohereList, cancel: cohereCancel, events: cohereEvents, find: cohereFind,
	}
}

// cohereModel is a job of Cohere.
type cohereModel struct {
	ID             string `json:"id"`
	Name           string `json:"name"`
	Status         string `json:"status"`
	OrganizationID string `json:"organization_id"`
	CreatedAt      moment `json:"created_at"`
	UpdatedAt      moment `json:"updated_at"`
	CompletedAt    moment `json:"completed_at"`
	Settings       struct {
		DatasetID string `json:"dataset_id"`
		BaseModel struct {
			Name string `json:"name"`
		} `json:"base_model"`
	} `json:"settings"`
}

// cohereCreate trains a model for chat. A data set of Cohere has its own part for
// validation.
func cohereCreate(ctx context.Context, s *session, in *Input) (*Job, error) {
	if in.ValidationFile != "" {
		return nil, refuse("validation_file",
			"provider %q has validation data in the data set of training_file: leave validation_file out", s.id)
	}
	o := object{"name": cohereName(in)}
	o.set("settings.base_model.base_type", "BASE_TYPE_CHAT")
	o.set("settings.base_model.name", in.Model)
	o.set("settings.dataset_id", in.TrainingFile)
	s.setParameters(o, in)
	s.setIntegration(o, in)
	return s.cohereModel(ctx, &vendorcall.Request{Method: "POST", Path: coherePath}, o)
}

// cohereName returns the name of the model: the suffix and the id of the gateway.
func cohereName(in *Input) string {
	return strings.Trim(in.Suffix+"-"+in.OwnID, "-")
}

func cohereGet(ctx context.Context, s *session, id string) (*Job, error) {
	return s.cohereModel(ctx, &vendorcall.Request{Method: "GET", Path: coherePath + "/" + url.PathEscape(id)}, nil)
}

func (s *session) cohereModel(ctx context.Context, r *vendorcall.Request, in any) (*Job, error) {
	var wrapped struct {
		Model json.RawMessage `json:"finetuned_model"`
	}
	if err := s.client.JSON(ctx, r, in, &wrapped); err != nil {
		return nil, err
	}
	_, job, err := s.decodeCohere(wrapped.Model)
	return job, err
}

func (s *session) decodeCohere(raw json.RawMessage) (*cohereModel, *Job, error) {
	var m cohereModel
	if json.Unmarshal(raw, &m) != nil || m.ID == "" {
		return nil, nil, s.decodeError()
	}
	name := m.ID + "-ft" // https://docs.cohere.com/docs/chat-fine-tuning
	job := &Job{
		ID: m.ID, CreatedAt: int64(m.CreatedAt), Model: m.Settings.BaseModel.Name, OrganizationID: m.OrganizationID, FineTunedModel: &name,
		TrainingFile: m.Settings.DatasetID, ProviderStatus: m.Status,
	}
	job.FinishedAt = m.UpdatedAt.optional()
	if m.CompletedAt != 0 {
		job.FinishedAt = m.CompletedAt.optional()
	}
	settings, err := json.Marshal(map[string]json.RawMessage{"settings": valueAt(raw, "settings")})
	if err != nil {
		return nil, nil, s.decodeError()
	}
	job.Hyperparameters = s.parameters(supervised, settings)
	job.Status, job.UnknownStatus = s.state(m.Status)
	if m.Status == "STATUS_PAUSED" && m.CompletedAt != 0 {
		job.Status = Succeeded // the model is paused, not its training
	}
	job.normalise()
	return &m, job, nil
}

func cohereList(ctx context.Context, s *session, p Page) (*Jobs, error) {
	jobs, _, err := s.coherePage(ctx, p)
	return jobs, err
}

// coherePage returns jobs, and their names.
func (s *session) coherePage(ctx context.Context, p Page) (*Jobs, []string, error) {
	var page struct {
		Models []json.RawMessage `json:"finetuned_models"`
		Next   string            `json:"next_page_token"`
	}
	q := url.Values{"page_size": {strconv.Itoa(p.limit(100))}, "page_token": {p.After}, "order_by": {"created_at desc"}}
	if err := s.client.JSON(ctx, &vendorcall.Request{Method: "GET", Path: coherePath, Query: q.Encode()}, nil, &page); err != nil {
		return nil, nil, err
	}
	jobs := &Jobs{Next: page.Next}
	var names []string
	for _, raw := range page.Models {
		m, job, err := s.decodeCohere(raw)
		if err != nil {
			return nil, nil, err
		}
		jobs.Data, names = append(jobs.Data, job), append(names, m.Name)
	}
	return jobs, names, nil
}

func cohereFind(ctx context.Context, s *session, ownID string) (*Job, error) {
	p := Page{Limit: 100}
	for range maxPages {
		jobs, names, err := s.coherePage(ctx, p)
		if err != nil {
			return nil, err
		}
		for i, name := range names {
			if name == ownID || strings.HasSuffix(name, "-"+ownID) {
				return jobs.Data[i], nil
			}
		}
		if jobs.Next == "" {
			break
		}
		p.After = jobs.Next
	}
	return nil, nil
}

// cohereCancel deletes a model that is not ready: there is no other way to stop a training.
func cohereCancel(ctx context.Context, s *session, id string) error {
	return s.client.JSON(ctx, &vendorcall.Request{Method: "DELETE", Path: coherePath + "/" + url.PathEscape(id)}, nil, nil)
}

// cohereEvents reads all pages, since events have no ids: a job has a handful.
func cohereEvents(ctx context.Context, s *session, id string, p Page) (*List[Event], error) {
	var list []Event
	token := ""
	for range maxPages {
		var page struct {
			Events []struct {
				Status    string `json:"status"`
				CreatedAt moment `json:"created_at"`
			} `json:"events"`
			Next string `json:"next_page_token"`
		}
		q := url.Values{"page_size": {"100"}, "page_token": {token}}
		r := &vendorcall.Request{Method: "GET", Path: coherePath + "/" + url.PathEscape(id) + "/events", Query: q.Encode()}
		if err := s.client.JSON(ctx, r, nil, &page); err != nil {
			return nil, err
		}
		for _, e := range page.Events {
			event := Event{CreatedAt: int64(e.CreatedAt), Message: "status changed to " + e.Status}
			if s.states[e.Status] == Failed {
				event.Level = "error"
			}
			list = append(list, event)
		}
		if token = page.Next; token == "" {
			return paginate(newestFirst(id, list), p)
		}
	}
	return nil, apierr.New(apierr.UpstreamFailed, "provider %q has too many events for this job", s.id)
}
