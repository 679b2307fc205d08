package vendorbatch

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"modelgate/api"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/stateplane/vendorcall"
)

// google is the batch API of the Gemini API. Inputs and results are files.
// https://ai.google.dev/api/batch-api
type google struct{}

// googleBatch is an operation, whose metadata is the batch.
type googleBatch struct {
	Name     string `json:"name"`
	Metadata struct {
		Model       string   `json:"model"`
		DisplayName string   `json:"displayName"`
		State       string   `json:"state"`
		CreateTime  unixTime `json:"createTime"`
		EndTime     unixTime `json:"endTime"`
		UpdateTime  unixTime `json:"updateTime"`
		BatchStats  struct {
			Requests   count `json:"requestCount"`
			Successful count `json:"successfulRequestCount"`
			Failed     count `json:"failedRequestCount"`
		} `json:"batchStats"`
		Output googleOutput `json:"output"`
	} `json:"metadata"`
	Error    *googleError `json:"error"`
	Response googleOutput `json:"response"`
}

type googleOutput struct {
	ResponsesFile string        `json:"responsesFile"`
	Inlined       googleInlined `json:"inlinedResponses"`
	InlinedEmbeds googleInlined `json:"inlinedEmbedContentResponses"`
}

// googleInlined are the results of requests that came with the batch.
type googleInlined struct {
	Responses []json.RawMessage `json:"inlinedResponses"`
}

// inlined returns the results that an output has.
func (o *googleOutput) inlined() []json.RawMessage {
	return append(o.Inlined.Responses, o.InlinedEmbeds.Responses...)
}

type googleError struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
}

// errors returns the error of a job as errors of a batch.
func (e *googleError) errors() *Errors {
	if e == nil || e.Message == "" {
		return nil
	}
	var list Errors
	list.add(0, codeOfNumber(e.Code), "", messageOf(nil, e.Message))
	return &list
}

// unified returns the batch as clients see it.
func (g *googleBatch) unified(v *view) (*Batch, error) {
	if !strings.HasPrefix(g.Name, "batches/") || !isID(g.Name) {
		return nil, v.unreadable(errNoID)
	}
	m := &g.Metadata
	b := &Batch{
		ID: g.Name, Object: "batch", Model: strings.TrimPrefix(m.Model, "models/"), CreatedAt: int64(m.CreateTime), Errors: g.Error.errors(),
		RequestCounts: Counts{int64(m.BatchStats.Requests), int64(m.BatchStats.Successful), int64(m.BatchStats.Failed)},
		Output:        first(g.Response.ResponsesFile, m.Output.ResponsesFile), OwnID: ownIDIn(m.DisplayName),
	}
	if b.inlined = g.Response.inlined(); len(b.inlined) == 0 {
		b.inlined = m.Output.inlined()
	}
	v.states.set(b, googleState(m.State))
	b.VendorStatus = m.State
	b.setEnd(first(m.EndTime, m.UpdateTime))
	return b, nil
}

// googleState returns a state without the prefix of its type.
func googleState(s string) string {
	s = strings.TrimPrefix(s, "BATCH_STATE_")
	return strings.TrimPrefix(s, "JOB_STATE_")
}

// displayName returns a name for people that ends with the record's id.
func (j *job) displayName() string {
	name := first(strings.TrimSpace(strings.NewReplacer("[", "(", "]", ")").Replace(j.in.Name)), "modelgate")
	if len(name) > 64 {
		name = strings.ToValidUTF8(name[:64], "")
	}
	if j.in.OwnID == "" {
		return name
	}
	return name + " [" + safeName(j.in.OwnID) + "]"
}

// ownIDIn returns the record's id in a display name, empty without one.
func ownIDIn(name string) string {
	rest, ok := strings.CutSuffix(name, "]")
	at := strings.LastIndexByte(rest, '[')
	if !ok || at < 0 {
		return ""
	}
	return rest[at+1:]
}

func (d google) create(ctx context.Context, j *job) (*Batch, error) {
	fileName := j.in.FileID
	if fileName == "" {
		var err error
		if fileName, err = d.upload(ctx, j); err != nil {
			return nil, wrap(err, "uploading the input of a batch")
		}
		j.uploaded = fileName
	}
	model := j.codec.model
	method := "batchGenerateContent"
	if j.codec.op == api.Embeddings {
		method = "asyncBatchEmbedContent"
	}
	body := map[string]any{"batch": map[string]any{
		"displayName": j.displayName(), "model": "models/" + strings.TrimPrefix(model, "models/"),
		"inputConfig": map[string]any{"fileName": fileName},
	}}
	path := "/v1beta/models/" + url.PathEscape(strings.TrimPrefix(model, "models/")) + ":" + method
	var reply googleBatch
	if err := j.post(ctx, path, body, &reply); err != nil {
		return nil, markUnanswered(err)
	}
	b, err := reply.unified(&j.view)
	if err != nil {
		return nil, markUnanswered(err)
	}
	b.InputFileID = fileName
	return b, nil
}

// upload uploads the input and returns its name. The vendor names the address to upload
// to in its answer.
// https://ai.google.dev/api/files
func (google) upload(ctx context.Context, j *job) (string, error) {
	body, length := j.content("", "\n", "\n")
	defer body.Close()
	start, err := json.Marshal(map[string]any{"file": map[string]any{"displayName": j.fileName()}})
	if err != nil {
		return "", err
	}
	res, err := j.open(ctx, &vendorcall.Request{
		Method: http.MethodPost, Path: "/upload/v1beta/files", Body: strings.NewReader(string(start)), Length: int64(len(start)),
		Header: http.Header{
			"Content-Type": {"application/json"}, "X-Goog-Upload-Protocol": {"resumable"}, "X-Goog-Upload-Command": {"start"},
			"X-Goog-Upload-Header-Content-Length": {strconv.FormatInt(length, 10)}, "X-Goog-Upload-Header-Content-Type": {"application/jsonl"},
		},
	})
	if err != nil {
		return "", err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxReply)) // so that the connection is used again
	res.Body.Close()
	link := res.Header.Get("X-Goog-Upload-Url")
	if link == "" {
		return "", j.unreadable(errors.New("the response has no address to upload to"))
	}
	var reply struct {
		File struct {
			Name string `json:"name"`
		} `json:"file"`
	}
	err = j.do(ctx, &vendorcall.Request{
		Method: http.MethodPost, Link: link, Body: body, Length: length,
		Header: http.Header{"X-Goog-Upload-Offset": {"0"}, "X-Goog-Upload-Command": {"upload, finalize"}},
	}, &reply)
	if err == nil && !strings.HasPrefix(reply.File.Name, "files/") {
		err = j.unreadable(errNoID)
	}
	return reply.File.Name, err
}

func (google) removal(id string) *vendorcall.Request {
	return &vendorcall.Request{Method: http.MethodDelete, Path: "/v1beta/" + resourcePath(id)}
}

func (google) record(dst []byte, _ *Line, key string, body []byte) []byte {
	return appendShortLine(dst, "key", key, "request", body)
}

// trim returns the request inside a request for several embeddings.
func (google) trim(j *job, body []byte) ([]byte, error) {
	if j.codec.op != api.Embeddings {
		return body, nil
	}
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return nil, err
	}
	list, _ := v.Get("requests")
	for e := range list.Elements() {
		return e.Raw(), nil
	}
	return nil, errors.New("the line has no input")
}

func (google) get(ctx context.Context, v *view, id string) (*Batch, error) {
	var reply googleBatch
	if err := v.client.get(ctx, "/v1beta/"+resourcePath(id), "", &reply); err != nil {
		return nil, err
	}
	return reply.unified(v)
}

// resourcePath escapes the segments of a resource's name, none of which leads out of it.
func resourcePath(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		if parts[i] = url.PathEscape(p); p == "." || p == ".." {
			parts[i] = strings.ReplaceAll(p, ".", "%2E")
		}
	}
	return strings.Join(parts, "/")
}

func (google) cancel(ctx context.Context, v *view, id string) error {
	return v.post(ctx, "/v1beta/"+resourcePath(id)+":cancel", nil, nil)
}

func (google) find(ctx context.Context, v *view, in *Input) (*Batch, error) {
	token := ""
	for range maxPages {
		query := url.Values{"pageSize": {"100"}}
		if token != "" {
			query.Set("pageToken", token)
		}
		var page struct {
			Operations    []googleBatch `json:"operations"`
			NextPageToken string        `json:"nextPageToken"`
		}
		if err := v.client.get(ctx, "/v1beta/batches", query.Encode(), &page); err != nil {
			return nil, err
		}
		for i := range page.Operations {
			if ownIDIn(page.Operations[i].Metadata.DisplayName) == safeName(in.OwnID) {
				return page.Operations[i].unified(v)
			}
		}
		if token = page.NextPageToken; token == "" {
			break
		}
	}
	return nil, nil
}

func (google) rows(ctx context.Context, v *view, b *Batch, in *Input) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		parse := parseGoogleRow
		if in.Endpoint == embeddingsEndpoint {
			parse = parseGoogleVector
		}
		if in.Keyless {
			parse = numbered(parse)
		}
		for _, line := range b.inlined {
			if !yield(parse(line), nil) {
				return
			}
		}
		if b.Output == "" {
			return
		}
		r := &vendorcall.Request{Method: http.MethodGet, Path: "/download/v1beta/" + resourcePath(b.Output) + ":download", Query: "alt=media"}
		v.readRows(ctx, r, parse, yield)
	}
}

// numbered returns parse with the number of a row in place of its key.
func numbered(parse func([]byte) row) func([]byte) row {
	n := 0
	return func(line []byte) row {
		n++
		r := parse(line)
		r.setKey(strconv.Itoa(n))
		return r
	}
}

// parseGoogleRow reads a result with a response, or with an error, which is an object
// or, on Vertex AI, a string.
func parseGoogleRow(line []byte) row {
	r, v, ok := newRow(line)
	if !ok {
		return r
	}
	r.setKey(v.TextOf("key"))
	r.setGoogle(v)
	return r
}

// setGoogle sets the response or the error of a row.
func (r *row) setGoogle(v jsonedit.Value) {
	if response, ok := v.Get("response"); ok && response.Kind() == jsonedit.Object && string(response.Raw()) != "{}" {
		r.status, r.body, r.requestID = http.StatusOK, response.Raw(), response.TextOf("responseId")
	}
	for _, name := range []string{"error", "status"} {
		fault, ok := v.Get(name)
		if text, isText := fault.Text(); ok && !fault.IsNull() && !(isText && text == "") {
			r.status, r.body, r.fault = 0, nil, faultOf(fault)
			break
		}
	}
	r.needResponse()
}

// parseGoogleVector reads a result of embeddings, in the form of a response with one
// vector.
func parseGoogleVector(line []byte) row {
	r := parseGoogleRow(line)
	v, err := jsonedit.ParseValue(r.body)
	if r.body == nil || err != nil {
		return r
	}
	vector, _ := v.Get("embedding")
	b := jsonedit.Append(nil)
	b.Open('{')
	b.Name("embeddings")
	b.Open('[')
	b.Raw(vector.Raw())
	b.Close(']')
	if usage, ok := v.Get("usageMetadata"); ok {
		b.Name("usageMetadata")
		b.Raw(usage.Raw())
	}
	b.Close('}')
	r.body = b.Bytes()
	return r
}
