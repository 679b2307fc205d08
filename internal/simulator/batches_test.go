package simulator_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/simulator"
)

// storedBatch is a batch of the chat protocol, as client libraries decode it.
type storedBatch struct {
	ID, Object, Endpoint, Status string
	InputFile                    string  `json:"input_file_id"`
	Output                       *string `json:"output_file_id"`
	Failures                     *string `json:"error_file_id"`
	Window                       string  `json:"completion_window"`
	Model                        string
	Created                      int64  `json:"created_at"`
	InProgress                   *int64 `json:"in_progress_at"`
	Expires                      *int64 `json:"expires_at"`
	Finalizing                   *int64 `json:"finalizing_at"`
	Completed                    *int64 `json:"completed_at"`
	FailedAt                     *int64 `json:"failed_at"`
	Expired                      *int64 `json:"expired_at"`
	Cancelling                   *int64 `json:"cancelling_at"`
	Cancelled                    *int64 `json:"cancelled_at"`
	Counts                       struct {
		Total, Completed, Failed int
	} `json:"request_counts"`
	Usage *struct {
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"`
		Total  int `json:"total_tokens"`
	}
	Metadata map[string]string
	Errors   *struct {
		Data []struct {
			Code, Message string
			Line          *int
			Param         *string
		}
	}
}

// resultLine is a line of a file with results.
type resultLine struct {
	ID       string
	CustomID string `json:"custom_id"`
	Response *struct {
		Status    int    `json:"status_code"`
		RequestID string `json:"request_id"`
		Body      completion
	}
	Error *struct{ Code, Message string }
}

// batchInput returns n lines for a model.
func batchInput(model string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"custom_id":"c%d","method":"POST","url":"/v1/chat/completions","body":{"model":%q,"messages":[{"role":"user","content":"Line %d"}]}}`+"\n", i+1, model, i+1)
	}
	return b.String()
}

func batchBody(file string) string {
	return `{"input_file_id":"` + file + `","endpoint":"/v1/chat/completions","completion_window":"24h"}`
}

// mustUploadBatch uploads a file for a batch and returns its id.
func (h *fixture) mustUploadBatch(t *testing.T, content string) string {
	t.Helper()
	var got struct{ ID string }
	body, kind := form(t, []byte(content), "purpose", "batch")
	h.mustSend("POST", "/v1/files", body, "Content-Type", kind).mustDecodeInto(t, &got)
	return got.ID
}

// mustBatch creates a batch with four lines for a model.
func (h *fixture) mustBatch(t *testing.T, model string, header ...string) (b storedBatch) {
	t.Helper()
	h.mustPost("/v1/batches", batchBody(h.mustUploadBatch(t, batchInput(model, 4))), header...).mustDecodeInto(t, &b)
	return b
}

func (h *fixture) batch(t *testing.T, id string) (b storedBatch) {
	t.Helper()
	h.mustSend("GET", "/v1/batches/"+id, "").mustDecodeInto(t, &b)
	return b
}

// ended reads a batch until it has ended.
func (h *fixture) ended(t *testing.T, id string) storedBatch {
	t.Helper()
	for range 20 {
		if b := h.batch(t, id); !slices.Contains([]string{"validating", "in_progress", "finalizing", "cancelling"}, b.Status) {
			return b
		}
	}
	t.Fatal("the batch does not end")
	return storedBatch{}
}

// results reads a file with results.
func (h *fixture) results(t *testing.T, file *string) (list []resultLine) {
	t.Helper()
	if file == nil {
		return nil
	}
	for line := range strings.Lines(h.mustSend("GET", "/v1/files/"+*file+"/content", "").body) {
		var r resultLine
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		list = append(list, r)
	}
	return list
}

func TestBatchMovesOnWhenItIsReadAndRunsItsLines(t *testing.T) {
	h := mustServe(t, simulator.Options{Tokens: 8})
	file := h.mustUploadBatch(t, batchInput("m", 3)+
		`{"custom_id":"bad","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[]}}`)
	var b storedBatch
	h.mustPost("/v1/batches", strings.Replace(batchBody(file), `{`, `{"metadata":{"a":"b"},`, 1)).mustDecodeInto(t, &b)
	if b.Object != "batch" || b.Status != "validating" || b.InputFile != file || b.Window != "24h" || b.Metadata["a"] != "b" || b.Created == 0 || *b.Expires != b.Created+86400 || b.InProgress != nil || b.Output != nil || b.Usage != nil || b.Counts.Total != 0 {
		t.Errorf("created %+v", b)
	}
	if b = h.batch(t, b.ID); b.Status != "in_progress" || b.InProgress == nil || b.Counts.Total != 4 || b.Output != nil {
		t.Errorf("in progress %+v", b)
	}
	if b = h.batch(t, b.ID); b.Status != "finalizing" || b.Finalizing == nil || b.Counts.Completed != 3 || b.Output != nil {
		t.Errorf("finalizing %+v", b)
	}
	if b = h.batch(t, b.ID); b.Status != "completed" || b.Completed == nil || b.Counts.Completed != 3 || b.Counts.Failed != 1 || b.Model != "m" {
		t.Errorf("completed %+v", b)
	}
	list := h.results(t, b.Output)
	if len(list) != 3 || list[0].CustomID != "c3" || list[2].CustomID != "c1" || list[2].Response.Status != 200 || list[2].Response.RequestID == "" || list[2].Error != nil || !strings.HasPrefix(list[2].Response.Body.Choices[0].Message.Content, "echo: Line 1") {
		t.Fatalf("results %+v", list)
	}
	prompt := 0
	for _, r := range list {
		prompt += r.Response.Body.Usage.Prompt
	}
	if b.Usage == nil || b.Usage.Input != prompt || b.Usage.Output != 24 || b.Usage.Total != prompt+24 {
		t.Errorf("usage %+v, want %d and 24", b.Usage, prompt)
	}
	failed := h.results(t, b.Failures)
	if len(failed) != 1 || failed[0].CustomID != "bad" || failed[0].Response.Status != 400 || failed[0].Response.Body.Error == nil {
		t.Errorf("failures %+v", failed)
	}
	if a := h.mustSend("GET", "/v1/files/"+*b.Output, ""); !strings.Contains(a.body, `"purpose":"batch_output"`) {
		t.Errorf("file %s", a.body)
	}
	if a := h.mustPost("/v1/batches/"+b.ID+"/cancel", ""); a.StatusCode != 409 {
		t.Errorf("cancel at the end: %d %s", a.StatusCode, a.body)
	}
}

func TestBatchInputIsValidatedLineByLine(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	const good = `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"x"}]}}`
	for _, tt := range []struct{ name, content, code, param string }{
		{"an empty file", "\n", "empty_file", ""},
		{"no JSON", good + "\n{", "invalid_json_line", ""},
		{"a byte order mark", "\ufeff" + good, "invalid_json_line", ""},
		{"an unknown member", strings.Replace(good, `"url"`, `"x":1,"url"`, 1), "invalid_json_line", ""},
		{"a duplicate id", good + "\n" + good, "duplicate_custom_id", "custom_id"},
		{"no id", strings.Replace(good, `"custom_id":"a",`, "", 1), "missing_required_parameter", "custom_id"},
		{"a number as id", strings.Replace(good, `"a"`, `1`, 1), "invalid_type", "custom_id"},
		{"another method", strings.Replace(good, `POST`, `GET`, 1), "invalid_method", "method"},
		{"another endpoint", strings.Replace(good, `chat/completions`, `embeddings`, 1), "url_mismatch", "url"},
		{"no body", `{"custom_id":"a","method":"POST","url":"/v1/chat/completions"}`, "missing_required_parameter", "body"},
		{"no model", strings.Replace(good, `"model":"m",`, ``, 1), "missing_required_parameter", "body.model"},
		{"another model", good + "\n" + strings.NewReplacer(`"m"`, `"n"`, `"a"`, `"b"`).Replace(good), "model_mismatch", "body.model"},
		{"a stream", strings.Replace(good, `"model"`, `"stream":true,"model"`, 1), "invalid_value", "body.stream"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b storedBatch
			h.mustPost("/v1/batches", batchBody(h.mustUploadBatch(t, tt.content))).mustDecodeInto(t, &b)
			b = h.ended(t, b.ID)
			if b.Status != "failed" || b.FailedAt == nil || b.Output != nil || b.Errors == nil || len(b.Errors.Data) != 1 {
				t.Fatalf("batch %+v", b)
			}
			e := b.Errors.Data[0]
			lines := strings.Count(strings.TrimRight(tt.content, "\n"), "\n") + 1
			if e.Code != tt.code || deref(e.Param) != tt.param || e.Message == "" || (e.Line == nil) != (tt.code == "empty_file") || e.Line != nil && *e.Line != lines {
				t.Errorf("error %+v", e)
			}
		})
	}
	var b storedBatch
	h.mustPost("/v1/batches", batchBody(h.mustUploadBatch(t, strings.Repeat("{\n", 200)))).mustDecodeInto(t, &b)
	if b = h.ended(t, b.ID); len(b.Errors.Data) != 100 {
		t.Errorf("%d errors, want the first 100", len(b.Errors.Data))
	}
	h.mustPost("/v1/batches", batchBody(h.mustUploadBatch(t, strings.ReplaceAll(batchInput("m", 2), "\n", "\r\n")+"\r\n"))).mustDecodeInto(t, &b)
	if b = h.ended(t, b.ID); b.Status != "completed" || b.Counts.Completed != 2 {
		t.Errorf("lines that end in CR LF: %+v", b)
	}
}

func TestBatchRequestsAreChecked(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	file := h.mustUploadBatch(t, batchInput("m", 1))
	var other struct{ ID string }
	body, kind := form(t, []byte("x"), "purpose", "vision")
	h.mustSend("POST", "/v1/files", body, "Content-Type", kind).mustDecodeInto(t, &other)
	for _, tt := range []struct{ name, from, to, param string }{
		{"an unknown file", file, "file-none", "input_file_id"},
		{"a file for another purpose", file, other.ID, "input_file_id"},
		{"no file", `"input_file_id"`, `"metadata":{},"x"`, "x"},
		{"an unknown endpoint", "/v1/chat/completions", "/v1/videos", "endpoint"},
		{"another window", "24h", "48h", "completion_window"},
		{"no window", `,"completion_window":"24h"`, ``, "completion_window"},
		{"metadata with numbers", `{"input`, `{"metadata":{"a":1},"input`, "metadata.a"},
		{"a short lifetime", `{"input`, `{"output_expires_after":{"anchor":"created_at","seconds":60},"input`, "output_expires_after.seconds"},
		{"another anchor", `{"input`, `{"output_expires_after":{"anchor":"ended_at","seconds":3600},"input`, "output_expires_after.anchor"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := h.mustPost("/v1/batches", strings.Replace(batchBody(file), tt.from, tt.to, 1))
			if e := a.mustDecode(t).Error; a.StatusCode != 400 || e == nil || deref(e.Param) != tt.param {
				t.Errorf("%d %s", a.StatusCode, a.body)
			}
		})
	}
	for _, tt := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/v1/batches/none", 404}, {"POST", "/v1/batches/none/cancel", 404}, {"GET", "/v1/batches?limit=101", 400},
		{"GET", "/v1/batches?limit=x", 400}, {"GET", "/v1/batches?after=none", 400}, {"GET", "/v1/batches?colour=red", 400},
	} {
		if a := h.mustSend(tt.method, tt.path, ""); a.StatusCode != tt.status || a.mustDecode(t).Error == nil {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, a.StatusCode, a.body)
		}
	}
}

func TestCancelledAndExpiredBatchesKeepTheirResults(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	b := h.mustBatch(t, "m+job=expire")
	b = h.ended(t, b.ID)
	if failed := h.results(t, b.Failures); b.Status != "expired" || b.Expired == nil || len(h.results(t, b.Output)) != 2 || len(failed) != 2 || failed[0].Error.Code != "batch_expired" || failed[0].Response != nil || b.Counts.Completed != 2 || b.Counts.Failed != 2 || b.Usage == nil {
		t.Errorf("expired %+v with %+v", b, failed)
	}
	b = h.mustBatch(t, "m")
	h.batch(t, b.ID)
	for range 2 {
		if h.mustPost("/v1/batches/"+b.ID+"/cancel", "").mustDecodeInto(t, &b); b.Status != "cancelling" || b.Cancelling == nil {
			t.Errorf("cancelling %+v", b)
		}
	}
	if b = h.batch(t, b.ID); b.Status != "cancelled" || len(h.results(t, b.Output)) != 2 || b.Failures != nil {
		t.Errorf("cancelled %+v", b)
	}
	b = h.mustBatch(t, "m+job=slow-cancel")
	h.mustPost("/v1/batches/"+b.ID+"/cancel", "").mustDecodeInto(t, &b)
	for range 4 {
		if b = h.batch(t, b.ID); b.Status != "cancelling" {
			t.Errorf("status %s while it is cancelled slowly", b.Status)
		}
	}
	if b = h.batch(t, b.ID); b.Status != "cancelled" || b.Output != nil {
		t.Errorf("a batch that was cancelled before it ran: %+v", b)
	}
}

func TestBatchFaultsComeFromTheHeaderOrTheModel(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	b := h.mustBatch(t, "m+job=fail", simulator.HeaderFault, "job=hang")
	for range 2 {
		if got := h.batch(t, b.ID).Status; got != "in_progress" {
			t.Errorf("%s: the header does not win", got)
		}
	}
	for i, want := range []bool{false, true} {
		_, err := h.send("POST", "/v1/batches", batchBody(h.mustUploadBatch(t, batchInput("m+lost+times=1", 1))))
		if (err == nil) != want {
			t.Errorf("create %d: %v", i+1, err)
		}
	}
	b = h.mustBatch(t, "m+status=429+half-content")
	if b = h.ended(t, b.ID); b.Counts.Failed != 4 || b.Output != nil || b.Usage != nil {
		t.Errorf("a batch whose lines all fail: %+v", b)
	}
	if a := h.mustSend("GET", "/v1/files/"+*b.Failures+"/content", ""); a.err == nil || a.body == "" {
		t.Errorf("the content is complete: %s", a.body)
	}
	for _, fault := range []string{"hang", "reset", "headers=1h", "cut=5", "huge=60GiB", "gzip-bomb"} {
		b := h.mustBatch(t, "m+"+fault)
		b = h.ended(t, b.ID)
		if failed := h.results(t, b.Failures); b.Counts.Failed != 4 || len(failed) != 4 || failed[0].Error == nil || failed[0].Error.Code != "server_error" {
			t.Errorf("%s: %+v with %+v", fault, b, failed)
		}
	}
}

func TestBatchesAreListedByPageAndCrowdedOut(t *testing.T) {
	h := mustServe(t, simulator.Options{MaxFiles: 6000})
	var ids []string
	for range 3 {
		ids = append([]string{h.mustBatch(t, "m").ID}, ids...)
	}
	var got struct {
		Data  []storedBatch
		First string `json:"first_id"`
		Last  string `json:"last_id"`
		More  bool   `json:"has_more"`
	}
	h.mustSend("GET", "/v1/batches?limit=2", "").mustDecodeInto(t, &got)
	if len(got.Data) != 2 || got.Data[0].ID != ids[0] || got.First != ids[0] || got.Last != ids[1] || !got.More {
		t.Errorf("first page %+v", got)
	}
	h.mustSend("GET", "/v1/batches?limit=2&after="+ids[1], "").mustDecodeInto(t, &got)
	if len(got.Data) != 1 || got.Data[0].ID != ids[2] || got.More {
		t.Errorf("second page %+v", got)
	}
	for range 20 {
		h.mustBatch(t, "m")
	}
	if a := h.mustSend("GET", "/v1/batches/"+ids[0], ""); a.StatusCode != 404 {
		t.Errorf("the oldest batch is kept: %s", a.body)
	}
	h.sim.Reset()
	if h.mustSend("GET", "/v1/batches", "").mustDecodeInto(t, &got); len(got.Data) != 0 {
		t.Errorf("after Reset: %+v", got)
	}
}

func TestBatchesOfVendorsHaveTheirOwnLimits(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	for _, tt := range []struct {
		path, purpose, window string
		status                int
	}{
		{"/groq/openai/v1", "batch", "7d", 200}, {"/groq/openai/v1", "batch", "8d", 400}, {"/openai/v1", "batch", "24h", 200},
		{"/azure/openai/v1", "batch", "24h", 200}, {"/openai", "batch", "24h", 200},
	} {
		var file struct{ ID string }
		body, kind := form(t, []byte(batchInput("m", 1)), "purpose", tt.purpose)
		h.mustSend("POST", tt.path+"/files", body, "Content-Type", kind).mustDecodeInto(t, &file)
		a := h.mustPost(tt.path+"/batches", strings.Replace(batchBody(file.ID), "24h", tt.window, 1))
		if a.StatusCode != tt.status {
			t.Errorf("%s with %s: %d %s", tt.path, tt.window, a.StatusCode, a.body)
		}
	}
	if a := h.mustPost("/groq/openai/v1/chat/completions", plain("m")); a.StatusCode != 200 || a.mustDecode(t).Object != "chat.completion" {
		t.Errorf("other routes of a vendor: %d %s", a.StatusCode, a.body)
	}
}
