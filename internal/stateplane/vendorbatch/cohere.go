package vendorbatch

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/stateplane/vendorcall"
)

// cohereJobs is the API of embed jobs, which read a dataset and write one in Avro's
// format. All lines have the same type of input.
// https://docs.cohere.com/reference/create-embed-job
type cohereJobs struct{}

type cohereJob struct {
	JobID         string   `json:"job_id"`
	Name          string   `json:"name"`
	Status        string   `json:"status"`
	CreatedAt     unixTime `json:"created_at"`
	InputDataset  string   `json:"input_dataset_id"`
	OutputDataset string   `json:"output_dataset_id"`
	Model         string   `json:"model"`
	Meta          struct {
		Billed struct {
			InputTokens count `json:"input_tokens"`
		} `json:"billed_units"`
	} `json:"meta"`
}

// unified returns the batch as clients see it. Cohere reports no other times.
func (c *cohereJob) unified(v *view) (*Batch, error) {
	if !isID(c.JobID) {
		return nil, v.unreadable(errNoID)
	}
	b := &Batch{
		ID: c.JobID, Object: "batch", Endpoint: embeddingsEndpoint, Model: c.Model, CreatedAt: int64(c.CreatedAt), InputFileID: c.InputDataset,
		Output: c.OutputDataset, OwnID: ownIDIn(c.Name),
	}
	if n := int64(c.Meta.Billed.InputTokens); n > 0 {
		b.Usage = &Usage{InputTokens: n, TotalTokens: n}
	}
	v.states.set(b, c.Status)
	return b, nil
}

// cohereDataset is a dataset, alone or in an object.
type cohereDataset struct {
	ID      string `json:"id"`
	Dataset struct {
		Status string `json:"validation_status"`
		Error  string `json:"validation_error"`
		Parts  []struct {
			URL   string `json:"url"`
			Index int    `json:"index"`
		} `json:"dataset_parts"`
	} `json:"dataset"`
}

func (d cohereJobs) create(ctx context.Context, j *job) (*Batch, error) {
	dataset := j.in.FileID
	if dataset == "" {
		var err error
		if dataset, err = d.upload(ctx, j); err != nil {
			return nil, wrap(err, "uploading the input of a batch")
		}
		j.uploaded = dataset
		if err := d.wait(ctx, j, dataset); err != nil {
			return nil, err
		}
	}
	body := map[string]any{
		"model": j.codec.model, "dataset_id": dataset, "input_type": first(j.summary.inputType, "search_document"), "name": j.displayName(),
		"embedding_types": []string{"float"},
	}
	if j.summary.truncate != "" {
		body["truncate"] = j.summary.truncate
	}
	var reply cohereJob
	if err := j.post(ctx, "/v1/embed-jobs", body, &reply); err != nil {
		return nil, markUnanswered(err)
	}
	reply.Status, reply.InputDataset, reply.Model = first(reply.Status, "processing"), dataset, j.codec.model
	b, err := reply.unified(&j.view)
	return b, markUnanswered(err)
}

// upload creates a dataset and returns its id.
func (cohereJobs) upload(ctx context.Context, j *job) (string, error) {
	body, length, kind := j.form("data", j.fileName())
	query := url.Values{"name": {j.fileName()}, "type": {"embed-input"}, "keep_fields": {"custom_id"}}
	var reply cohereDataset
	err := j.do(ctx, &vendorcall.Request{
		Method: http.MethodPost, Path: "/v1/datasets", Query: query.Encode(), Header: http.Header{"Content-Type": {kind}},
		Body: body, Length: length,
	}, &reply)
	if err == nil && reply.ID == "" {
		err = j.unreadable(errNoID)
	}
	return reply.ID, err
}

func (cohereJobs) removal(id string) *vendorcall.Request {
	return &vendorcall.Request{Method: http.MethodDelete, Path: "/v1/datasets/" + url.PathEscape(id)}
}

// waits are the pauses until a dataset is validated: about two minutes.
var waits = []time.Duration{
	time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second, 15 * time.Second, 20 * time.Second,
	30 * time.Second, 30 * time.Second,
}

// wait waits until a dataset is validated: a job refuses it before.
func (cohereJobs) wait(ctx context.Context, j *job, id string) error {
	for _, pause := range waits {
		var reply cohereDataset
		if err := j.client.get(ctx, "/v1/datasets/"+url.PathEscape(id), "", &reply); err != nil {
			return err
		}
		switch reply.Dataset.Status {
		case "validated", "skipped":
			return nil
		case "failed":
			return apierr.New(apierr.Invalid, "%s refused the input: %s", j.spec.Name, messageOf(nil, reply.Dataset.Error)).
				WithParam("input_file_id")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for a dataset: %w", ctx.Err())
		case <-time.After(pause):
		}
	}
	return apierr.New(apierr.Unavailable, "%s has not validated the input in two minutes; try again later", j.spec.Name)
}

// trim returns the text of a request. What belongs to the job must be equal in all
// lines.
func (cohereJobs) trim(j *job, body []byte) ([]byte, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return nil, err
	}
	if _, ok := v.Get("output_dimension"); ok {
		return nil, apierr.New(apierr.Invalid, "dimensions is not supported in batches of %s; remove it", j.spec.Name).
			WithParam("dimensions").WithCode("unsupported_parameter")
	}
	s := &j.summary
	for _, m := range []struct {
		name string
		of   *string
	}{{"input_type", &s.inputType}, {"truncate", &s.truncate}} {
		value := v.TextOf(m.name)
		if s.records == 0 {
			*m.of = value
		}
		if value != *m.of {
			return nil, apierr.New(apierr.Invalid, "%s must be the same in all lines of a batch of %s: %q and %.60q differ", m.name, j.spec.Name,
				*m.of, value).WithParam(m.name).WithCode("mixed_parameters")
		}
	}
	texts, _ := v.Get("texts")
	for text := range texts.Elements() {
		return text.Raw(), nil
	}
	return nil, apierr.New(apierr.Invalid, "input must be text in batches of %s", j.spec.Name).WithParam("input").WithCode("unsupported_input")
}

func (cohereJobs) record(dst []byte, _ *Line, key string, text []byte) []byte {
	return appendShortLine(dst, "custom_id", key, "text", text)
}

func (cohereJobs) get(ctx context.Context, v *view, id string) (*Batch, error) {
	var reply cohereJob
	if err := v.client.get(ctx, "/v1/embed-jobs/"+url.PathEscape(id), "", &reply); err != nil {
		return nil, err
	}
	return reply.unified(v)
}

func (cohereJobs) cancel(ctx context.Context, v *view, id string) error {
	return v.send(ctx, &vendorcall.Request{Method: http.MethodPost, Path: "/v1/embed-jobs/" + url.PathEscape(id) + "/cancel"}, nil, nil)
}

func (cohereJobs) find(ctx context.Context, v *view, in *Input) (*Batch, error) {
	var list struct {
		Jobs []cohereJob `json:"embed_jobs"`
	}
	if err := v.client.get(ctx, "/v1/embed-jobs", "", &list); err != nil {
		return nil, err
	}
	for i := range list.Jobs {
		if ownIDIn(list.Jobs[i].Name) == safeName(in.OwnID) {
			return list.Jobs[i].unified(v)
		}
	}
	return nil, nil
}

func (cohereJobs) rows(ctx context.Context, v *view, b *Batch, _ *Input) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		if b.Output == "" {
			return
		}
		var reply cohereDataset
		if err := v.client.get(ctx, "/v1/datasets/"+url.PathEscape(b.Output), "", &reply); err != nil {
			yield(row{}, err)
			return
		}
		parts := reply.Dataset.Parts
		slices.SortStableFunc(parts, func(a, b struct {
			URL   string `json:"url"`
			Index int    `json:"index"`
		}) int {
			return a.Index - b.Index
		})
		for _, part := range parts {
			if !v.avroRows(ctx, part.URL, yield) {
				return
			}
		}
	}
}

// avroRows yields the rows of a part of a dataset. It returns false if the sequence
// ends.
func (v *view) avroRows(ctx context.Context, link string, yield func(row, error) bool) bool {
	res, err := v.open(ctx, &vendorcall.Request{Method: http.MethodGet, Link: link})
	if err != nil {
		yield(row{}, err)
		return false
	}
	defer res.Body.Close()
	for record, err := range avroRecords(res.Body) {
		if err != nil {
			yield(row{}, v.unreadable(err))
			return false
		}
		if !yield(parseCohereRow(record), nil) {
			return false
		}
	}
	return true
}

// parseCohereRow reads a record with the vector of one text, in one type or several.
func parseCohereRow(record []byte) row {
	r, v, ok := newRow(record)
	if !ok {
		return r
	}
	r.setKey(v.TextOf("custom_id"))
	vectors, ok := v.Get("embeddings")
	if !ok {
		vectors, _ = v.Get("embedding")
	}
	all := map[string]json.RawMessage{}
	switch vectors.Kind() {
	case jsonedit.Array:
		all["float"] = vectors.Raw()
	case jsonedit.Object:
		for name, list := range vectors.Fields() {
			if list.Kind() == jsonedit.Array {
				all[name.String()] = list.Raw()
			}
		}
	}
	b := jsonedit.Append(nil)
	b.Open('{')
	b.Name("embeddings")
	b.Open('{')
	for name, list := range all {
		b.Key(name)
		b.Open('[')
		b.Raw(list)
		b.Close(']')
	}
	b.Close('}')
	b.Close('}')
	if len(all) > 0 {
		r.status, r.body = http.StatusOK, b.Bytes()
	}
	r.needResponse()
	return r
}
