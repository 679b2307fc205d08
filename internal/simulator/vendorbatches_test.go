package simulator_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/simulator"
)

// vendorUpload uploads a file to a vendor and returns its id.
func (h *fixture) vendorUpload(t *testing.T, path, purpose, content string) string {
	t.Helper()
	var got struct{ ID string }
	body, kind := form(t, []byte(content), "purpose", purpose)
	a := h.mustSend("POST", path, body, "Content-Type", kind)
	if a.mustDecodeInto(t, &got); got.ID == "" {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	return got.ID
}

// bareLines returns n lines without method and url.
func bareLines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"custom_id":"c%d","body":{"messages":[{"role":"user","content":"Line %d"}]}}`+"\n", i+1, i+1)
	}
	return b.String()
}

type togetherBatch struct {
	ID, Status, Endpoint, Error string
	Input                       string `json:"input_file_id"`
	Output                      string `json:"output_file_id"`
	Failures                    string `json:"error_file_id"`
	Model                       string `json:"model_id"`
	Created                     string `json:"created_at"`
	Completed                   string `json:"completed_at"`
	Progress                    float64
}

func TestTogetherBatchesHaveTheirOwnShape(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	const path = "/together/v1/batches"
	file := h.vendorUpload(t, "/together/v1/files", "batch-api", bareLines(2)+`{"custom_id":"c3","body":{"model":"m","messages":[]}}`)
	var created struct {
		Job     togetherBatch
		Warning *string
	}
	body := `{"input_file_id":"` + file + `","endpoint":"/v1/chat/completions","model_id":"m"}`
	a := h.mustPost(path, body)
	if a.mustDecodeInto(t, &created); a.StatusCode != 201 || created.Warning == nil || created.Job.Status != "VALIDATING" || created.Job.Model != "m" || created.Job.Input != file || !strings.HasSuffix(created.Job.Created, "Z") {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	var b togetherBatch
	for _, want := range []string{"IN_PROGRESS", "IN_PROGRESS", "COMPLETED"} {
		b = togetherBatch{}
		if h.mustSend("GET", path+"/"+created.Job.ID, "").mustDecodeInto(t, &b); b.Status != want {
			t.Errorf("status %s, want %s", b.Status, want)
		}
	}
	if b.Progress != 100 || b.Output == "" || b.Failures == "" || b.Completed == "" {
		t.Errorf("completed %+v", b)
	}
	list := h.results(t, &b.Output)
	if failed := h.results(t, &b.Failures); len(list) != 2 || list[1].CustomID != "c1" || list[1].Response.Body.Model != "m" || len(failed) != 1 {
		t.Errorf("results %+v and %+v", list, failed)
	}
	var all []togetherBatch
	if h.mustSend("GET", path, "").mustDecodeInto(t, &all); len(all) != 1 || all[0].ID != b.ID {
		t.Errorf("list %+v", all)
	}
	if a := h.mustPost(path+"/"+b.ID+"/cancel", ""); a.StatusCode != 400 {
		t.Errorf("late cancel: %d %s", a.StatusCode, a.body)
	}
	h.mustPost(path, strings.Replace(body, `"m"`, `"m+job=hang"`, 1)).mustDecodeInto(t, &created)
	h.mustPost(path+"/"+created.Job.ID+"/cancel", "")
	if h.mustSend("GET", path+"/"+created.Job.ID, "").mustDecodeInto(t, &b); b.Status != "CANCELLED" {
		t.Errorf("cancelled %+v", b)
	}
	h.mustPost(path, strings.Replace(body, `"m"`, `"m+job=fail"`, 1)).mustDecodeInto(t, &created)
	if h.mustSend("GET", path+"/"+created.Job.ID, "").mustDecodeInto(t, &b); b.Status != "FAILED" || b.Error == "" {
		t.Errorf("failed %+v", b)
	}
	for _, broken := range []string{
		strings.Replace(body, `{`, `{"metadata":{},`, 1), strings.Replace(body, file, "file-none", 1), strings.Replace(body, "/v1/chat/completions", "/v1/embeddings", 1), `{}`,
	} {
		if a := h.mustPost(path, broken); a.StatusCode != 400 || a.mustDecode(t).Error == nil {
			t.Errorf("%s: %d %s", broken, a.StatusCode, a.body)
		}
	}
	if a := h.mustSend("GET", path+"/none", ""); a.StatusCode != 404 {
		t.Errorf("an unknown batch: %d", a.StatusCode)
	}
}

type mistralBatch struct {
	ID, Object, Status, Model string
	Output                    *string `json:"output_file"`
	Failures                  *string `json:"error_file"`
	Total                     int     `json:"total_requests"`
	Succeeded                 int     `json:"succeeded_requests"`
	Failed                    int     `json:"failed_requests"`
	Errors                    []struct{ Message string }
	Outputs                   []resultLine
}

func TestMistralBatchesHaveTheirOwnShape(t *testing.T) {
	h := mustServe(t, simulator.Options{Key: "k"})
	key := []string{"Authorization", "Bearer k"}
	var file struct{ ID string }
	upload, kind := form(t, []byte(bareLines(2)), "purpose", "batch")
	h.mustSend("POST", "/mistral/v1/files", upload, append(key, "Content-Type", kind)...).mustDecodeInto(t, &file)
	var b mistralBatch
	body := `{"input_files":["` + file.ID + `"],"endpoint":"/v1/chat/completions","model":"m","timeout_hours":24}`
	h.mustPost("/v1/batch/jobs", body, key...).mustDecodeInto(t, &b)
	if b.Object != "batch" || b.Status != "QUEUED" || b.Model != "m" || b.Output != nil {
		t.Errorf("created %+v", b)
	}
	for _, want := range []string{"RUNNING", "RUNNING", "SUCCESS"} {
		if h.mustSend("GET", "/v1/batch/jobs/"+b.ID+"?inline=true", "", key...).mustDecodeInto(t, &b); b.Status != want {
			t.Errorf("status %s, want %s", b.Status, want)
		}
	}
	if b.Total != 2 || b.Succeeded != 2 || b.Failed != 0 || b.Output == nil || len(b.Outputs) != 2 || b.Outputs[0].CustomID != "c1" {
		t.Errorf("ended %+v", b)
	}
	var address struct{ URL string }
	h.mustSend("GET", "/mistral/v1/files/"+*b.Output+"/url", "", key...).mustDecodeInto(t, &address)
	if a := h.mustSend("GET", strings.TrimPrefix(address.URL, h.url), ""); a.StatusCode != 200 || strings.Count(a.body, "\n") != 2 {
		t.Errorf("signed address %s: %d %s", address.URL, a.StatusCode, a.body)
	}
	if a := h.mustSend("GET", strings.TrimPrefix(address.URL, h.url)+"x", ""); a.StatusCode != 401 {
		t.Errorf("another signature: %d", a.StatusCode)
	}
	inline := `{"requests":[{"custom_id":"a","body":{"messages":[{"role":"user","content":"x"}]}}],"endpoint":"/v1/chat/completions","model":"m+job=hang"}`
	h.mustPost("/v1/batch/jobs", inline, key...).mustDecodeInto(t, &b)
	h.mustSend("GET", "/v1/batch/jobs/"+b.ID, "", key...)
	if h.mustPost("/v1/batch/jobs/"+b.ID+"/cancel", "", key...).mustDecodeInto(t, &b); b.Status != "CANCELLATION_REQUESTED" {
		t.Errorf("cancelling %+v", b)
	}
	if h.mustSend("GET", "/v1/batch/jobs/"+b.ID, "", key...).mustDecodeInto(t, &b); b.Status != "CANCELLED" {
		t.Errorf("cancelled %+v", b)
	}
	var list struct {
		Object string
		Total  int
		Data   []mistralBatch
	}
	if h.mustSend("GET", "/v1/batch/jobs?status=CANCELLED&page_size=1", "", key...).mustDecodeInto(t, &list); list.Total != 1 || len(list.Data) != 1 || list.Data[0].ID != b.ID {
		t.Errorf("list %+v", list)
	}
	if a := h.mustSend("DELETE", "/v1/batch/jobs/"+b.ID, "", key...); a.StatusCode != 200 || h.mustSend("GET", "/v1/batch/jobs/"+b.ID, "", key...).StatusCode != 404 {
		t.Errorf("delete: %d %s", a.StatusCode, a.body)
	}
	full := h.vendorFull(t, key)
	if full.Status != "FAILED" || len(full.Errors) != 1 || !strings.Contains(full.Errors[0].Message, "line 1") {
		t.Errorf("lines with method and url: %+v", full)
	}
	for _, broken := range []string{
		`{}`, strings.Replace(body, `"model":"m",`, ``, 1), strings.Replace(body, `{`, `{"x":1,`, 1), strings.Replace(body, file.ID, "none", 1),
		strings.Replace(body, `{`, `{"requests":[],`, 1), strings.Replace(body, `24`, `200`, 1), strings.Replace(body, `/v1/chat/completions`, `/v1/x`, 1),
	} {
		if a := h.mustPost("/v1/batch/jobs", broken, key...); a.StatusCode != 422 || a.mustDecode(t).Error == nil {
			t.Errorf("%s: %d %s", broken, a.StatusCode, a.body)
		}
	}
}

// vendorFull runs lines of the chat protocol's form as a batch of Mistral.
func (h *fixture) vendorFull(t *testing.T, key []string) (b mistralBatch) {
	t.Helper()
	var file struct{ ID string }
	upload, kind := form(t, []byte(batchInput("m", 1)), "purpose", "batch")
	h.mustSend("POST", "/v1/files", upload, append(key, "Content-Type", kind)...).mustDecodeInto(t, &file)
	h.mustPost("/v1/batch/jobs", `{"input_files":["`+file.ID+`"],"endpoint":"/v1/chat/completions","model":"m"}`, key...).mustDecodeInto(t, &b)
	h.mustSend("GET", "/v1/batch/jobs/"+b.ID, "", key...).mustDecodeInto(t, &b)
	return b
}

type xaiBatch struct {
	ID       string `json:"batch_id"`
	Name     string
	Canceled *string `json:"cancel_time"`
	State    struct {
		Requests  int `json:"num_requests"`
		Pending   int `json:"num_pending"`
		Success   int `json:"num_success"`
		Error     int `json:"num_error"`
		Cancelled int `json:"num_cancelled"`
	}
}

func TestXAIBatchesTakeRequestsInSteps(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	const path = "/xai/v1/batches"
	request := func(id, model, content string) string {
		return fmt.Sprintf(`{"batch_request_id":%q,"batch_request":{"chat_get_completion":{"model":%q,"messages":[%s]}}}`, id, model, content)
	}
	const hello = `{"role":"user","content":"Line"}`
	var b xaiBatch
	if h.mustPost(path, `{"name":"n"}`).mustDecodeInto(t, &b); b.Name != "n" || b.ID == "" || b.State.Requests != 0 {
		t.Errorf("created %+v", b)
	}
	get := func() xaiBatch {
		t.Helper()
		var got xaiBatch
		h.mustSend("GET", path+"/"+b.ID, "").mustDecodeInto(t, &got)
		return got
	}
	get()
	if a := h.mustPost(path+"/"+b.ID+"/requests", `{"batch_requests":[`+request("a", "m", hello)+`,`+request("b", "m", "")+`]}`); a.StatusCode != 200 || a.body != "{}" {
		t.Fatalf("added: %d %s", a.StatusCode, a.body)
	}
	if got := get(); got.State.Pending != 2 || got.State.Requests != 2 {
		t.Errorf("pending %+v", got)
	}
	if got := get(); got.State.Pending != 0 || got.State.Success != 1 || got.State.Error != 1 {
		t.Errorf("ended %+v", got)
	}
	var page struct {
		Results []struct {
			ID     string `json:"batch_request_id"`
			Result struct {
				Error    json.RawMessage
				Response struct {
					Chat completion `json:"chat_get_completion"`
				}
			} `json:"batch_result"`
		}
		Token *string `json:"pagination_token"`
	}
	h.mustSend("GET", path+"/"+b.ID+"/results?limit=1", "").mustDecodeInto(t, &page)
	if len(page.Results) != 1 || page.Results[0].ID != "b" || page.Results[0].Result.Error == nil || page.Token == nil {
		t.Fatalf("first page %+v", page)
	}
	token := *page.Token
	page.Token, page.Results = nil, nil
	h.mustSend("GET", path+"/"+b.ID+"/results?pagination_token="+token, "").mustDecodeInto(t, &page)
	if len(page.Results) != 1 || page.Results[0].ID != "a" || len(page.Results[0].Result.Response.Chat.Choices) != 1 || page.Token != nil {
		t.Errorf("second page %+v", page)
	}
	if a := h.mustSend("GET", path+"/"+b.ID+"/requests", ""); !strings.Contains(a.body, `"state":"succeeded"`) {
		t.Errorf("requests %s", a.body)
	}
	h.mustPost(path, `{"name":"n"}`).mustDecodeInto(t, &b)
	one := `{"batch_requests":[` + request("a", "m+job=hang", hello) + `]}`
	h.mustPost(path+"/"+b.ID+"/requests", one)
	for name, broken := range map[string]string{
		"a duplicate": one, "no requests": `{}`, "an unknown member": `{"x":1}`, "no kind": `{"batch_requests":[{"batch_request_id":"c","batch_request":{}}]}`,
	} {
		if a := h.mustPost(path+"/"+b.ID+"/requests", broken); a.StatusCode != 400 || a.mustDecode(t).Error == nil {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
	if h.mustPost(path+"/"+b.ID+":cancel", "").mustDecodeInto(t, &b); b.State.Cancelled != 1 || b.Canceled == nil {
		t.Errorf("cancelled %+v", b)
	}
	if a := h.mustPost(path, `{}`); a.StatusCode != 400 {
		t.Errorf("no name: %d %s", a.StatusCode, a.body)
	}
	if a := h.mustSend("GET", path, ""); strings.Count(a.body, "batch_id") != 2 {
		t.Errorf("list %s", a.body)
	}
	if a := h.mustSend("GET", path+"/none", ""); a.StatusCode != 404 {
		t.Errorf("an unknown batch: %d", a.StatusCode)
	}
}

func TestTogetherTakesContentAtASignedAddress(t *testing.T) {
	h := mustServe(t, simulator.Options{Key: "k"})
	key := []string{"Authorization", "Bearer k"}
	body, kind := form(t, nil, "purpose", "batch-api", "file_name", "a.jsonl", "file_type", "jsonl")
	start := h.mustSend("POST", "/together/v1/files", body, append(key, "Content-Type", kind)...)
	id := start.Header.Get("X-Together-File-Id")
	if start.StatusCode != 302 || id == "" {
		t.Fatalf("%d %v", start.StatusCode, start.Header)
	}
	address := strings.TrimPrefix(start.Header.Get("Location"), h.url)
	if a := h.mustSend("PUT", strings.Split(address, "?")[0], "x", key...); a.StatusCode != 404 {
		t.Errorf("without a signature: %d", a.StatusCode)
	}
	if a := h.mustSend("PUT", address, bareLines(1)); a.StatusCode != 200 {
		t.Errorf("content: %d %s", a.StatusCode, a.body)
	}
	if a := h.mustSend("POST", "/together/v1/files/"+id+"/preprocess", "", key...); a.StatusCode != 200 || !strings.Contains(a.body, `"FileType":"jsonl"`) {
		t.Errorf("preprocess: %d %s", a.StatusCode, a.body)
	}
	if a := h.mustSend("GET", "/together/v1/files/"+id+"/content", "", key...); a.body != bareLines(1) {
		t.Errorf("content %q", a.body)
	}
	body, kind = form(t, nil, "purpose", "batch", "file_name", "a")
	if a := h.mustSend("POST", "/together/v1/files", body, append(key, "Content-Type", kind)...); a.StatusCode != 400 {
		t.Errorf("another purpose: %d", a.StatusCode)
	}
}
