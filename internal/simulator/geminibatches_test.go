package simulator_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/simulator"
)

// geminiBatch is the operation of a batch, as client libraries decode it.
type geminiBatch struct {
	Name     string
	Done     bool
	Error    *struct{ Code int }
	Metadata struct {
		Name, Model, DisplayName, State, CreateTime, EndTime string

		BatchStats struct {
			RequestCount, PendingRequestCount, SuccessfulRequestCount, FailedRequestCount string
		}
		Output *geminiOutput
	}
	Response *geminiOutput
}

type geminiOutput struct {
	ResponsesFile                string
	InlinedResponses             *geminiResults
	InlinedEmbedContentResponses *geminiResults
}

type geminiResults struct {
	InlinedResponses []geminiLine
}

type geminiLine struct {
	Key      string
	Metadata map[string]any
	Error    *struct {
		Code    int
		Message string
	}
	Response *struct {
		Candidates []struct {
			Content struct{ Parts []struct{ Text string } }
		}
		Embedding *struct{ Values []float64 }
	}
}

const geminiRequest = `{"contents":[{"role":"user","parts":[{"text":"Line %d"}]}]}`

// geminiInlined returns the body of a batch with n requests.
func geminiInlined(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"request":`+geminiRequest+`,"metadata":{"key":"k%d"}}`, i+1, i+1))
	}
	return `{"batch":{"displayName":"d","inputConfig":{"requests":{"requests":[` + strings.Join(list, ",") + `]}}}}`
}

func (h *fixture) mustGeminiBatch(t *testing.T, model, body string) (b geminiBatch) {
	t.Helper()
	a := h.mustPost("/v1beta/models/"+model+":batchGenerateContent", body)
	if a.mustDecodeInto(t, &b); a.StatusCode != 200 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	return b
}

func (h *fixture) geminiBatch(t *testing.T, name string) (b geminiBatch) {
	t.Helper()
	h.mustSend("GET", "/v1beta/"+name, "").mustDecodeInto(t, &b)
	return b
}

func TestGeminiBatchesRunInlinedRequests(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	body := strings.Replace(geminiInlined(3), `"contents":[{"role":"user","parts":[{"text":"Line 3"}]}]`, `"contents":[]`, 1)
	b := h.mustGeminiBatch(t, "m", body)
	if !strings.HasPrefix(b.Name, "batches/") || b.Done || b.Metadata.State != "BATCH_STATE_PENDING" || b.Metadata.Model != "models/m" || b.Metadata.DisplayName != "d" || b.Metadata.BatchStats.RequestCount != "3" || b.Metadata.BatchStats.PendingRequestCount != "3" || b.Metadata.Output != nil {
		t.Errorf("created %+v", b)
	}
	if b = h.geminiBatch(t, b.Name); b.Metadata.State != "BATCH_STATE_RUNNING" {
		t.Errorf("running %+v", b)
	}
	b = h.geminiBatch(t, b.Name)
	if !b.Done || b.Metadata.State != "BATCH_STATE_SUCCEEDED" || b.Metadata.EndTime == "" || b.Metadata.BatchStats.SuccessfulRequestCount != "2" || b.Metadata.BatchStats.FailedRequestCount != "1" || b.Response == nil {
		t.Fatalf("ended %+v", b)
	}
	list := b.Metadata.Output.InlinedResponses.InlinedResponses
	if len(list) != 3 || list[0].Metadata["key"] != "k1" || !strings.HasPrefix(list[0].Response.Candidates[0].Content.Parts[0].Text, "echo: Line 1") || list[2].Error == nil || list[2].Error.Code != 3 {
		t.Errorf("results %+v", list)
	}
	if a := h.mustPost("/v1beta/"+b.Name+":cancel", ""); a.StatusCode != 400 {
		t.Errorf("late cancel: %d %s", a.StatusCode, a.body)
	}
	if a := h.mustSend("DELETE", "/v1beta/"+b.Name, ""); a.StatusCode != 200 || a.body != "{}" {
		t.Errorf("delete: %d %s", a.StatusCode, a.body)
	}
	if a := h.mustSend("GET", "/v1beta/"+b.Name, ""); a.StatusCode != 404 || !strings.Contains(a.body, "NOT_FOUND") {
		t.Errorf("after delete: %d %s", a.StatusCode, a.body)
	}
}

func TestGeminiBatchesRunFiles(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	content := fmt.Sprintf(`{"key":"a","request":`+geminiRequest+"}\n"+`{"key":"b","request":`+geminiRequest+"}\n", 1, 2)
	batch := func(file, model string) geminiBatch {
		t.Helper()
		b := h.mustGeminiBatch(t, model, `{"batch":{"display_name":"d","input_config":{"file_name":"`+file+`"}}}`)
		h.geminiBatch(t, b.Name)
		return h.geminiBatch(t, b.Name)
	}
	for _, way := range []string{"raw", "resumable"} {
		file := ""
		if way == "raw" {
			file = h.mustUpload(t, "raw", content, "Content-Type", "application/jsonl").Name
		} else {
			start := h.mustSend("POST", "/upload/v1beta/files", `{}`, "X-Goog-Upload-Protocol", "resumable", "X-Goog-Upload-Command", "start", "X-Goog-Upload-Header-Content-Type", "application/jsonl")
			var up struct{ File vendorFile }
			h.mustSend("POST", strings.TrimPrefix(start.Header.Get("X-Goog-Upload-Url"), h.url), content, "X-Goog-Upload-Command", "upload, finalize", "X-Goog-Upload-Offset", "0").mustDecodeInto(t, &up)
			file = up.File.Name
		}
		b := batch(file, "m")
		if b.Metadata.State != "BATCH_STATE_SUCCEEDED" || b.Response == nil || !strings.HasPrefix(b.Response.ResponsesFile, "files/batch-") {
			t.Fatalf("%s: %+v", way, b)
		}
		a := h.mustSend("GET", "/download/v1beta/"+b.Response.ResponsesFile+":download?alt=media", "")
		lines := strings.Split(strings.TrimSpace(a.body), "\n")
		var first geminiLine
		if err := json.Unmarshal([]byte(lines[0]), &first); err != nil || len(lines) != 2 || first.Key != "b" || first.Response == nil {
			t.Errorf("%s: results %s", way, a.body)
		}
	}
	broken := h.mustUpload(t, "raw", content+"x", "Content-Type", "application/jsonl").Name
	if b := batch(broken, "m"); b.Metadata.State != "BATCH_STATE_FAILED" || b.Error == nil || b.Error.Code != 3 {
		t.Errorf("a broken line: %+v", b)
	}
}

func TestGeminiBatchesEndEarly(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	b := h.mustGeminiBatch(t, "m+job=expire", geminiInlined(2))
	h.geminiBatch(t, b.Name)
	if b = h.geminiBatch(t, b.Name); b.Metadata.State != "BATCH_STATE_EXPIRED" || b.Metadata.Output.InlinedResponses.InlinedResponses[0].Response == nil || b.Metadata.Output.InlinedResponses.InlinedResponses[1].Error.Code != 4 {
		t.Errorf("expired %+v", b)
	}
	b = h.mustGeminiBatch(t, "m+job=hang", geminiInlined(2))
	if a := h.mustPost("/v1beta/"+b.Name+":cancel", ""); a.StatusCode != 200 || a.body != "{}" {
		t.Errorf("cancel: %d %s", a.StatusCode, a.body)
	}
	if b = h.geminiBatch(t, b.Name); b.Metadata.State != "BATCH_STATE_CANCELLED" || !b.Done || b.Error.Code != 1 {
		t.Errorf("cancelled %+v", b)
	}
	b = h.mustGeminiBatch(t, "m+job=fail", geminiInlined(2))
	if b = h.geminiBatch(t, b.Name); b.Metadata.State != "BATCH_STATE_FAILED" || b.Error == nil {
		t.Errorf("failed %+v", b)
	}
}

func TestGeminiBatchesAreCheckedAndListed(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	good := geminiInlined(1)
	for _, tt := range []struct{ name, body, want string }{
		{"no batch", `{}`, "displayName"},
		{"an unknown member", `{"x":1}`, `Unknown name \"x\"`},
		{"an unknown member of the batch", strings.Replace(good, `"displayName"`, `"x":1,"displayName"`, 1), `Unknown name \"x\" at 'batch'`},
		{"an unknown member of a request", strings.Replace(good, `"metadata"`, `"custom_id":"a","metadata"`, 1), `Unknown name \"custom_id\"`},
		{"no input", `{"batch":{"displayName":"d","inputConfig":{}}}`, "inputConfig"},
		{"no requests", `{"batch":{"displayName":"d","inputConfig":{"requests":{"requests":[]}}}}`, "requests"},
		{"an unknown file", `{"batch":{"displayName":"d","inputConfig":{"fileName":"files/none"}}}`, "files/none"},
		{"another model", strings.Replace(good, `"displayName"`, `"model":"models/n","displayName"`, 1), "batch.model"},
	} {
		a := h.mustPost("/v1beta/models/m:batchGenerateContent", tt.body)
		if a.StatusCode != 400 || !strings.Contains(a.body, tt.want) || !strings.Contains(a.body, "INVALID_ARGUMENT") {
			t.Errorf("%s: %d %s", tt.name, a.StatusCode, a.body)
		}
	}
	var names []string
	for range 3 {
		names = append([]string{h.mustGeminiBatch(t, "m", good).Name}, names...)
	}
	var page struct {
		Operations    []geminiBatch
		NextPageToken string
	}
	h.mustSend("GET", "/v1beta/batches?pageSize=2", "").mustDecodeInto(t, &page)
	if len(page.Operations) != 2 || page.Operations[0].Name != names[0] || page.NextPageToken == "" {
		t.Errorf("first page %+v", page)
	}
	token := page.NextPageToken
	page.NextPageToken = ""
	h.mustSend("GET", "/v1/batches?pageSize=2&pageToken="+token, "", "X-Goog-Api-Client", "x").mustDecodeInto(t, &page)
	if len(page.Operations) != 1 || page.Operations[0].Name != names[2] || page.NextPageToken != "" {
		t.Errorf("second page %+v", page)
	}
	var b geminiBatch
	h.mustPost("/v1beta/models/e:asyncBatchEmbedContent", `{"batch":{"displayName":"d","inputConfig":{"requests":{"requests":[{"request":{"content":{"parts":[{"text":"x"}]}}}]}}}}`).mustDecodeInto(t, &b)
	h.geminiBatch(t, b.Name)
	if b = h.geminiBatch(t, b.Name); b.Response == nil || b.Response.InlinedEmbedContentResponses == nil || b.Response.InlinedEmbedContentResponses.InlinedResponses[0].Response.Embedding == nil {
		t.Errorf("embeddings %+v", b)
	}
}
