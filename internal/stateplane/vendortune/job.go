package vendortune

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
)

// State is a state of a job.
type State string

// States of a job. A paused job is Running.
const (
	ValidatingFiles State = "validating_files"
	Queued          State = "queued"
	Running         State = "running"
	Succeeded       State = "succeeded"
	Failed          State = "failed"
	Cancelled       State = "cancelled"
)

// Ended reports whether a job in this state does not change any more.
func (s State) Ended() bool { return s == Succeeded || s == Failed || s == Cancelled }

// Job is a fine-tuning job. Times are Unix times in seconds.
type Job struct {
	ID              string                     `json:"id"`
	Object          string                     `json:"object"`
	CreatedAt       int64                      `json:"created_at"`
	Error           *JobError                  `json:"error"`            // only of a failed job
	FineTunedModel  *string                    `json:"fine_tuned_model"` // only of a job that succeeded
	FinishedAt      *int64                     `json:"finished_at"`      // only of a job that has ended
	Hyperparameters map[string]json.RawMessage `json:"hyperparameters"`  // with n_epochs
	Model           string                     `json:"model"`
	OrganizationID  string                     `json:"organization_id"`
	ResultFiles     []string                   `json:"result_files"`
	Status          State                      `json:"status"`
	TrainedTokens   *int64                     `json:"trained_tokens"` // only of a job that has ended
	TrainingFile    string                     `json:"training_file"`
	ValidationFile  *string                    `json:"validation_file"`
	Seed            int64                      `json:"seed"` // zero if the vendor does not show it
	Integrations    json.RawMessage            `json:"integrations"`
	EstimatedFinish *int64                     `json:"estimated_finish"` // only of a job that has not ended
	Method          json.RawMessage            `json:"method,omitempty"`
	Metadata        map[string]string          `json:"metadata"`
	// ProviderStatus is the vendor's own word for the state.
	ProviderStatus string `json:"provider_status"`

	// UnknownStatus reports that ProviderStatus is in no table: the job reads as running.
	UnknownStatus bool   `json:"-"`
	ownID         string // of the gateway, if the vendor returns it

	// Extra are further members of a vendor with the same shape.
	Extra map[string]json.RawMessage `json:"-"`
}

// JobError is why a job failed.
type JobError struct {
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
}

// MarshalJSON writes the members of the shape, followed by the extra ones.
func (j Job) MarshalJSON() ([]byte, error) {
	type plain Job
	b, err := json.Marshal(plain(j))
	if err != nil || len(j.Extra) == 0 {
		return b, err
	}
	extra, err := json.Marshal(j.Extra)
	if err != nil {
		return nil, err
	}
	return append(append(b[:len(b)-1], ','), extra[1:]...), nil
}

// normalise sets what is null in each state, and what is never null.
func (j *Job) normalise() {
	j.Object = "fine_tuning.job"
	if j.Hyperparameters == nil {
		j.Hyperparameters = map[string]json.RawMessage{}
	}
	if v := j.Hyperparameters["n_epochs"]; v == nil || string(v) == "null" {
		j.Hyperparameters["n_epochs"] = json.RawMessage(`"auto"`)
	}
	if j.ResultFiles == nil {
		j.ResultFiles = []string{}
	}
	if jsonedit.KindOf(j.Integrations) != jsonedit.Array {
		j.Integrations = json.RawMessage("null")
	}
	if jsonedit.KindOf(j.Method) != jsonedit.Object {
		j.Method = nil
	}
	if j.Status != Succeeded || j.FineTunedModel != nil && *j.FineTunedModel == "" {
		j.FineTunedModel = nil
	}
	switch {
	case j.Status != Failed:
		j.Error = nil
	case j.Error == nil:
		j.Error = &JobError{}
	}
	if j.Status == Failed {
		j.Error.Code = cmp.Or(j.Error.Code, "job_failed")
		j.Error.Message = cmp.Or(j.Error.Message, "the provider gave no reason")
	}
	if j.Status.Ended() {
		j.EstimatedFinish = nil
	} else {
		j.FinishedAt, j.TrainedTokens = nil, nil
	}
}

// Fill adds what the client sent to a job of the vendor: the names that the client used,
// and what the vendor does not return.
func (j *Job) Fill(in *Input) {
	j.Model = cmp.Or(in.Model, j.Model)
	j.TrainingFile = cmp.Or(in.TrainingFile, j.TrainingFile)
	if in.ValidationFile != "" {
		j.ValidationFile = &in.ValidationFile
	}
	for name, value := range in.hyperparameters {
		if known := j.Hyperparameters[name]; known == nil || string(known) == `"auto"` {
			j.Hyperparameters[name] = value.raw
		}
	}
	if in.Seed != nil && j.Seed == 0 {
		j.Seed = *in.Seed
	}
	if string(j.Integrations) == "null" && len(in.integrations) > 0 {
		j.Integrations = in.shownIntegrations()
	}
	if j.Method == nil {
		j.Method = in.method
	}
	if len(j.Metadata) == 0 {
		j.Metadata = in.Metadata
	}
}

// List is a page of a list of events or checkpoints.
type List[T any] struct {
	Object  string  `json:"object"`
	Data    []T     `json:"data"`
	HasMore bool    `json:"has_more"`
	FirstID *string `json:"first_id"` // null if the page is empty
	LastID  *string `json:"last_id"`
}

// Event is something that happened to a job.
type Event struct {
	ID        string          `json:"id"`
	Object    string          `json:"object"`
	CreatedAt int64           `json:"created_at"`
	Level     string          `json:"level"` // info, warn or error
	Message   string          `json:"message"`
	Type      string          `json:"type"` // message or metrics
	Data      json.RawMessage `json:"data,omitempty"`
}

// Checkpoint is a model that was saved during the training.
type Checkpoint struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	CreatedAt int64  `json:"created_at"`
	// FineTunedModelCheckpoint is the name of the model, empty if the vendor does not name
	// it.
	FineTunedModelCheckpoint string             `json:"fine_tuned_model_checkpoint"`
	StepNumber               int64              `json:"step_number"`
	Metrics                  map[string]float64 `json:"metrics"`
	FineTuningJobID          string             `json:"fine_tuning_job_id"`
}

func (e Event) listID() string      { return e.ID }
func (c Checkpoint) listID() string { return c.ID }

// paginate returns a page of a list that a vendor returns as a whole.
func paginate[T interface{ listID() string }](all []T, p Page) (*List[T], error) {
	if p.After != "" {
		at := slices.IndexFunc(all, func(item T) bool { return item.listID() == p.After })
		if at < 0 {
			return nil, apierr.New(apierr.Invalid, "after is not in this list: send the id of the last item of the page before").
				WithParam("after").WithCode("invalid_value")
		}
		all = all[at+1:]
	}
	n := min(p.limit(100), len(all))
	return newList(all[:n], n < len(all)), nil
}

func newList[T interface{ listID() string }](items []T, more bool) *List[T] {
	l := &List[T]{Object: "list", Data: items, HasMore: more}
	if len(items) == 0 {
		l.Data = []T{}
		return l
	}
	first, last := items[0].listID(), items[len(items)-1].listID()
	l.FirstID, l.LastID = &first, &last
	return l
}

// newestFirst orders events without ids, and gives them one: their number in the order of
// time, so that it stays the same while events are added.
func newestFirst(job string, list []Event) []Event {
	slices.SortStableFunc(list, func(a, b Event) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) })
	for i := range list {
		list[i].ID, list[i].Object = job+":event:"+strconv.Itoa(i), "fine_tuning.job.event"
		list[i].Level, list[i].Type = cmp.Or(list[i].Level, "info"), cmp.Or(list[i].Type, "message")
	}
	slices.Reverse(list)
	return list
}

// lastStepFirst orders checkpoints, and gives them an id and the job's.
func lastStepFirst(job string, list []Checkpoint) []Checkpoint {
	slices.SortStableFunc(list, func(a, b Checkpoint) int { return cmp.Compare(b.StepNumber, a.StepNumber) })
	for i := range list {
		c := &list[i]
		c.ID, c.Object, c.FineTuningJobID = job+":step:"+strconv.FormatInt(c.StepNumber, 10), "fine_tuning.job.checkpoint", job
		if c.Metrics == nil {
			c.Metrics = map[string]float64{}
		}
		c.Metrics["step"] = float64(c.StepNumber)
	}
	return list
}

// moment is a time as vendors write it: seconds, or a date and time of RFC 3339. Zero
// means none.
type moment int64

// UnmarshalJSON implements json.Unmarshaler. What is not a time is none.
func (m *moment) UnmarshalJSON(b []byte) error {
	text := strings.Trim(string(b), `"`)
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		*m = moment(t.Unix())
		return nil
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && f > 0 && f < 1<<40 {
		*m = moment(f)
	}
	return nil
}

// optional returns nil for none.
func (m moment) optional() *int64 {
	if m == 0 {
		return nil
	}
	t := int64(m)
	return &t
}
