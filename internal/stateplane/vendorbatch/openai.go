package vendorbatch

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/stateplane/vendorcall"
)

// ownKey is the member of metadata with the id of the record.
const ownKey = "modelgate_record"

// maxMetadata is how many members metadata may have.
const maxMetadata = 16

// openAI is OpenAI's batch API, which others have too.
// https://platform.openai.com/docs/api-reference/batch
type openAI struct {
	upload  string // path of uploads; /files if empty
	purpose string // of input files; batch if empty
	// noMetadata is true if batches have no metadata: they are found by the name of
	// their input file.
	noMetadata bool
}

// openAIBatch is a batch in OpenAI's format, or in that of Together, whose differences
// do not contradict it.
type openAIBatch struct {
	Job *openAIBatch `json:"job"` // Together

	ID               string          `json:"id"`
	Endpoint         string          `json:"endpoint"`
	Model            string          `json:"model"`
	ModelID          string          `json:"model_id"` // Together
	Errors           json.RawMessage `json:"errors"`
	Error            string          `json:"error"` // Together
	InputFileID      string          `json:"input_file_id"`
	CompletionWindow string          `json:"completion_window"`
	Status           string          `json:"status"`
	OutputFileID     string          `json:"output_file_id"`
	ErrorFileID      string          `json:"error_file_id"`
	CreatedAt        unixTime        `json:"created_at"`
	InProgressAt     unixTime        `json:"in_progress_at"`
	ExpiresAt        unixTime        `json:"expires_at"`
	JobDeadline      unixTime        `json:"job_deadline"` // Together
	FinalizingAt     unixTime        `json:"finalizing_at"`
	CompletedAt      unixTime        `json:"completed_at"`
	FailedAt         unixTime        `json:"failed_at"`
	ExpiredAt        unixTime        `json:"expired_at"`
	CancellingAt     unixTime        `json:"cancelling_at"`
	CancelledAt      unixTime        `json:"cancelled_at"`
	RequestCounts    struct {
		Total     count `json:"total"`
		Completed count `json:"completed"`
		Failed    count `json:"failed"`
	} `json:"request_counts"`
	Usage    *Usage  `json:"usage"`
	Metadata textMap `json:"metadata"`
}

// unified returns the batch as clients see it.
func (o *openAIBatch) unified(v *view) (*Batch, error) {
	if o.Job != nil {
		o = o.Job
	}
	if !isID(o.ID) {
		return nil, v.unreadable(errNoID)
	}
	b := &Batch{
		ID: o.ID, Object: "batch", Endpoint: o.Endpoint, Model: first(o.Model, o.ModelID), Errors: o.errors(),
		InputFileID: o.InputFileID, CompletionWindow: o.CompletionWindow, OutputFileID: o.OutputFileID, ErrorFileID: o.ErrorFileID,
		CreatedAt: int64(o.CreatedAt), InProgressAt: int64(o.InProgressAt), ExpiresAt: int64(first(o.ExpiresAt, o.JobDeadline)),
		FinalizingAt: int64(o.FinalizingAt), CompletedAt: int64(o.CompletedAt), FailedAt: int64(o.FailedAt), ExpiredAt: int64(o.ExpiredAt),
		CancellingAt: int64(o.CancellingAt), CancelledAt: int64(o.CancelledAt),
		RequestCounts: Counts{int64(o.RequestCounts.Total), int64(o.RequestCounts.Completed), int64(o.RequestCounts.Failed)},
		Usage:         o.Usage, OwnID: o.Metadata[ownKey],
	}
	if len(o.Metadata) > 0 {
		b.Metadata = maps.Clone(o.Metadata)
		delete(b.Metadata, ownKey)
	}
	v.states.set(b, o.Status)
	return b, nil
}

// errors returns the errors of the input in one form.
func (o *openAIBatch) errors() *Errors {
	var e Errors
	if json.Unmarshal(o.Errors, &e) == nil && len(e.Data) > 0 {
		e.Object, e.Data = "list", e.Data[:min(len(e.Data), maxErrors)]
		return &e
	}
	if o.Error != "" {
		e.add(0, "provider_error", "", o.Error)
		return &e
	}
	return nil
}

func (d *openAI) create(ctx context.Context, j *job) (*Batch, error) {
	fileID, err := d.uploadInput(ctx, j)
	if err != nil {
		return nil, err
	}
	body := map[string]any{"input_file_id": fileID, "endpoint": j.in.Endpoint, "completion_window": first(j.in.Window, "24h")}
	if !d.noMetadata {
		if m := metadataOf(j.in); len(m) > 0 {
			body["metadata"] = m
		}
	}
	var reply openAIBatch
	if err := j.post(ctx, "/batches", body, &reply); err != nil {
		return nil, markUnanswered(err)
	}
	b, err := reply.unified(&j.view)
	if err != nil {
		return nil, markUnanswered(err)
	}
	b.InputFileID = fileID
	return b, nil
}

// metadataOf returns the client's metadata with the record's id, if there is room.
func metadataOf(in *Input) map[string]string {
	m := maps.Clone(in.Metadata)
	if in.OwnID != "" && len(m) < maxMetadata {
		if m == nil {
			m = map[string]string{}
		}
		m[ownKey] = in.OwnID
	}
	return m
}

// uploadInput uploads the lines and returns the id of the file.
func (d *openAI) uploadInput(ctx context.Context, j *job) (string, error) {
	if j.in.FileID != "" {
		return j.in.FileID, nil
	}
	name := j.fileName()
	fields := []string{"purpose", first(d.purpose, "batch")}
	if d.upload != "" { // Together's
		fields = append(fields, "file_name", name)
	}
	body, length, kind := j.form("file", name, fields...)
	var file struct {
		ID string `json:"id"`
	}
	err := j.do(ctx, &vendorcall.Request{
		Method: http.MethodPost, Path: first(d.upload, "/files"), Header: http.Header{"Content-Type": {kind}}, Body: body, Length: length,
	}, &file)
	if err == nil && file.ID == "" {
		err = j.unreadable(errNoID)
	}
	j.uploaded = file.ID
	return file.ID, wrap(err, "uploading the input of a batch")
}

func (d *openAI) removal(id string) *vendorcall.Request {
	return &vendorcall.Request{Method: http.MethodDelete, Path: "/files/" + url.PathEscape(id)}
}

func (d *openAI) get(ctx context.Context, v *view, id string) (*Batch, error) {
	var reply openAIBatch
	if err := v.client.get(ctx, "/batches/"+url.PathEscape(id), "", &reply); err != nil {
		return nil, err
	}
	return reply.unified(v)
}

func (d *openAI) cancel(ctx context.Context, v *view, id string) error {
	return v.post(ctx, "/batches/"+url.PathEscape(id)+"/cancel", nil, nil)
}

// maxPages is how many pages of a list are read to find a batch.
const maxPages = 20

// batchPage is a page of batches: a list object, or with Together an array.
type batchPage struct {
	Data    []openAIBatch `json:"data"`
	HasMore bool          `json:"has_more"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *batchPage) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		return json.Unmarshal(data, &p.Data)
	}
	type plain batchPage
	return json.Unmarshal(data, (*plain)(p))
}

func (d *openAI) find(ctx context.Context, v *view, in *Input) (*Batch, error) {
	if in.Relayed != nil {
		return d.findRelayed(ctx, v, in.Relayed)
	}
	matches := func(b *openAIBatch) bool { return b.Metadata[ownKey] == in.OwnID }
	if d.noMetadata {
		fileID, err := d.findFile(ctx, v, fileNameOf(in.OwnID))
		if err != nil || fileID == "" {
			return nil, err
		}
		matches = func(b *openAIBatch) bool { return b.InputFileID == fileID }
	}
	var found *openAIBatch
	err := d.each(ctx, v, func(b *openAIBatch) bool {
		if matches(b) {
			found = b
		}
		return found == nil
	})
	if err != nil || found == nil {
		return nil, err
	}
	return found.unified(v)
}

// each calls f for the batches of a list, the newest first, until f returns false.
func (*openAI) each(ctx context.Context, v *view, f func(b *openAIBatch) bool) error {
	after := ""
	for range maxPages {
		query := url.Values{"limit": {"100"}}
		if after != "" {
			query.Set("after", after)
		}
		var page batchPage
		if err := v.client.get(ctx, "/batches", query.Encode(), &page); err != nil {
			return err
		}
		for i := range page.Data {
			if !f(&page.Data[i]) {
				return nil
			}
		}
		if !page.HasMore || len(page.Data) == 0 {
			return nil
		}
		after = page.Data[len(page.Data)-1].ID
	}
	return nil
}

// findRelayed finds the batch of a request whose body the client made. Of batches of the same
// input, the oldest that no other record has is returned.
func (d *openAI) findRelayed(ctx context.Context, v *view, r *Relayed) (*Batch, error) {
	var found []*openAIBatch
	err := d.each(ctx, v, func(b *openAIBatch) bool {
		if r.matches(b) {
			found = append(found, b)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	for _, b := range slices.Backward(found) {
		taken, err := r.IsTaken(ctx, b.ID)
		if err != nil {
			return nil, err
		}
		if !taken {
			return b.unified(v)
		}
	}
	return nil, nil
}

// findFile returns the id of the file with a name, empty without one.
func (d *openAI) findFile(ctx context.Context, v *view, name string) (string, error) {
	var list struct {
		Data []struct {
			ID       string `json:"id"`
			Filename string `json:"filename"`
		} `json:"data"`
	}
	err := v.client.get(ctx, "/files", "", &list)
	for _, f := range list.Data {
		if f.Filename == name {
			return f.ID, err
		}
	}
	return "", err
}

func (d *openAI) rows(ctx context.Context, v *view, b *Batch, _ *Input) iter.Seq2[row, error] {
	return fileRows(ctx, v, parseRow, b.OutputFileID, b.ErrorFileID)
}

// fileRows yields the rows of the vendor's files; ids may be empty.
func fileRows(ctx context.Context, v *view, parse func([]byte) row, ids ...string) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		for _, id := range ids {
			if id == "" {
				continue
			}
			path := "/files/" + url.PathEscape(id) + "/content"
			if !v.readRows(ctx, &vendorcall.Request{Method: http.MethodGet, Path: path}, parse, yield) {
				return
			}
		}
	}
}

// readRows yields the rows of a response. It returns false if the sequence ends.
func (v *view) readRows(ctx context.Context, r *vendorcall.Request, parse func([]byte) row, yield func(row, error) bool) bool {
	res, err := v.open(ctx, r)
	if err != nil {
		yield(row{}, err)
		return false
	}
	defer res.Body.Close()
	for line, err := range jsonLines(res.Body) {
		if err != nil {
			yield(row{}, err)
			return false
		}
		if !yield(parse(line), nil) {
			return false
		}
	}
	return true
}

// parseRow reads a result in OpenAI's format. The response may be an object with a
// status and a body, or as with Fireworks the body itself.
func parseRow(line []byte) row {
	r, v, ok := newRow(line)
	if !ok {
		return r
	}
	r.setKey(v.TextOf("custom_id"))
	r.id = v.TextOf("id")
	if response, ok := v.Get("response"); ok && response.Kind() == jsonedit.Object {
		r.setResponse(response)
	}
	if fault, ok := v.Get("error"); ok && !fault.IsNull() {
		r.fault = faultOf(fault)
	}
	r.needResponse()
	return r
}

// newRow returns a row for a line, and the line if it is an object.
func newRow(line []byte) (row, jsonedit.Value, bool) {
	v, err := jsonedit.ParseValue(line)
	if err != nil || v.Kind() != jsonedit.Object {
		return row{raw: line, fault: &LineError{Code: codeInvalid, Message: "the provider returned a line that is not a JSON object"}}, v, false
	}
	return row{raw: line}, v, true
}

// setResponse sets the response of a row.
func (r *row) setResponse(response jsonedit.Value) {
	body, wrapped := response.Get("body")
	if !wrapped {
		body = response
	}
	status, _ := response.Get("status_code")
	n, _ := status.Int()
	if n < 100 || n > 599 {
		n = http.StatusOK
	}
	r.status, r.requestID = int(n), response.TextOf("request_id")
	if body.Kind() == jsonedit.Object {
		r.body = body.Raw()
	}
}

// needResponse sets an error if the row has neither a response nor an error.
func (r *row) needResponse() {
	if r.body == nil && r.fault == nil {
		r.status, r.fault = 0, &LineError{Code: codeInvalid, Message: "the provider returned a result without a response"}
	}
}

// faultOf reads the error of a line: an object with a code or a type, and a message, or
// a string.
func faultOf(v jsonedit.Value) *LineError {
	if text, ok := v.Text(); ok {
		return &LineError{Code: "provider_error", Message: messageOf(v.Raw(), text)}
	}
	code := v.TextOf("code")
	if inner, ok := v.Get("error"); ok && code == "" && inner.Kind() == jsonedit.Object {
		return faultOf(inner)
	}
	if n, ok := v.Get("code"); ok && code == "" {
		if i, isInt := n.Int(); isInt {
			code = codeOfNumber(i)
		}
	}
	return &LineError{Code: first(v.TextOf("status"), code, v.TextOf("type"), "provider_error"), Message: messageOf(v.Raw(), "")}
}
