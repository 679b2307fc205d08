package simulator_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/simulator"
)

// cohereDataset is a dataset, as client libraries decode it.
type cohereDataset struct {
	Dataset struct {
		ID     string
		Type   string                 `json:"dataset_type"`
		Status string                 `json:"validation_status"`
		Error  string                 `json:"validation_error"`
		Parts  []struct{ URL string } `json:"dataset_parts"`
	}
}

func (h *fixture) cohereDataset(t *testing.T, id string) (d cohereDataset) {
	t.Helper()
	a := h.mustSend("GET", "/v1/datasets/"+id, "")
	if a.mustDecodeInto(t, &d); a.StatusCode != 200 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	return d
}

// mustCohereDataset uploads rows and waits until they are validated.
func (h *fixture) mustCohereDataset(t *testing.T, kind, rows string) cohereDataset {
	t.Helper()
	body, header := fileForm(t, `form-data; name="data"; filename="rows.jsonl"`, "application/jsonl", rows)
	var created struct{ ID string }
	a := h.mustSend("POST", "/v1/datasets?name=d&type="+kind+"&keep_fields=custom_id,id", body, header[2:]...)
	if a.mustDecodeInto(t, &created); created.ID == "" {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	h.cohereDataset(t, created.ID)
	return h.cohereDataset(t, created.ID)
}

// avroReader reads what the simulator writes.
type avroReader struct {
	t    *testing.T
	data string
}

func (r *avroReader) long() int64 {
	n, size := binary.Varint([]byte(r.data))
	if size <= 0 {
		r.t.Fatalf("no number at %.20q", r.data)
	}
	r.data = r.data[size:]
	return n
}

func (r *avroReader) take(n int64) (text string) {
	if int64(len(r.data)) < n {
		r.t.Fatalf("%d bytes left, want %d", len(r.data), n)
	}
	text, r.data = r.data[:n], r.data[n:]
	return text
}

func TestCohereEmbedsDatasets(t *testing.T) {
	h := mustServe(t, simulator.Options{Key: "k"})
	h.key = []string{"Authorization", "Bearer k"}
	var rows strings.Builder
	for i := range 3 {
		fmt.Fprintf(&rows, `{"custom_id":"c%d","id":"i%d","text":"text %d"}`+"\n", i+1, i+1, i+1)
	}
	d := h.mustCohereDataset(t, "embed-input", rows.String())
	if d.Dataset.Status != "validated" || d.Dataset.Type != "embed-input" {
		t.Errorf("dataset %+v", d)
	}
	var job struct {
		ID     string `json:"job_id"`
		Status string
		Output string `json:"output_dataset_id"`
	}
	body := `{"model":"e","dataset_id":"` + d.Dataset.ID + `","input_type":"search_document"}`
	h.mustPost("/v1/embed-jobs", body).mustDecodeInto(t, &job)
	for _, want := range []string{"processing", "complete"} {
		if h.mustSend("GET", "/v1/embed-jobs/"+job.ID, "").mustDecodeInto(t, &job); job.Status != want {
			t.Errorf("status %s, want %s", job.Status, want)
		}
	}
	out := h.cohereDataset(t, job.Output)
	if out.Dataset.Type != "embed-result" || len(out.Dataset.Parts) != 2 {
		t.Fatalf("output %+v", out)
	}
	address := strings.TrimPrefix(out.Dataset.Parts[0].URL, h.url)
	if a := h.mustSend("GET", address, ""); a.StatusCode != 400 {
		t.Errorf("a key at a signed address: %d", a.StatusCode)
	}
	h.key = nil
	var ids []string
	for _, part := range out.Dataset.Parts {
		ids = append(ids, h.readAvro(t, strings.TrimPrefix(part.URL, h.url))...)
	}
	if !slices.Equal(ids, []string{"c1", "c2", "c3"}) {
		t.Errorf("rows %v", ids)
	}
}

// readAvro checks the rows of a part and returns their custom ids.
func (h *fixture) readAvro(t *testing.T, address string) (ids []string) {
	t.Helper()
	r := &avroReader{t, h.mustSend("GET", address, "").body}
	if r.take(4) != "Obj\x01" || r.long() != 2 {
		t.Fatal("no container")
	}
	for range 2 {
		if name, value := r.take(r.long()), r.take(r.long()); name == "avro.schema" && !json.Valid([]byte(value)) {
			t.Errorf("schema %s", value)
		}
	}
	r.long()
	sync := r.take(16)
	count := r.long()
	r.long()
	for range count {
		text := r.take(r.long())
		r.long()
		ids = append(ids, r.take(r.long()))
		r.long()
		r.take(r.long())
		r.long()
		vector := simulator.Vector(text, int(r.long()))
		for i := range vector {
			f := math.Float64frombits(binary.LittleEndian.Uint64([]byte(r.take(8))))
			if math.Abs(f-float64(vector[i])) > 1e-6 {
				t.Fatalf("element %d of %s is %g, want %g", i, text, f, vector[i])
			}
		}
		r.long()
	}
	if r.data != sync {
		t.Errorf("the part ends in %q", r.data)
	}
	return ids
}

func TestCohereJobsAreCheckedAndCancelled(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	d := h.mustCohereDataset(t, "embed-input", `{"text":"a"}`)
	broken := h.mustCohereDataset(t, "embed-input", `{"text":["a"]}`)
	if broken.Dataset.Status != "failed" || !strings.Contains(broken.Dataset.Error, "row 1") {
		t.Errorf("a list as text: %+v", broken)
	}
	good := `{"model":"e","dataset_id":"` + d.Dataset.ID + `","input_type":"search_document"}`
	for name, body := range map[string]string{
		"no model": strings.Replace(good, `"model":"e",`, ``, 1), "an unknown dataset": strings.Replace(good, d.Dataset.ID, "none", 1),
		"a dataset that failed": strings.Replace(good, d.Dataset.ID, broken.Dataset.ID, 1), "an unknown member": strings.Replace(good, `{`, `{"texts":[],`, 1),
		"an unknown input type": strings.Replace(good, "search_document", "x", 1), "no input type": strings.Replace(good, `,"input_type":"search_document"`, ``, 1),
	} {
		if a := h.mustPost("/v1/embed-jobs", body); a.StatusCode != 400 || !strings.Contains(a.body, `"message"`) {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
	for _, query := range []string{"?type=embed-input", "?name=d", "?name=d&type=embed-result", "?name=d&type=embed-input&x=1"} {
		body, header := fileForm(t, `form-data; name="data"; filename="a"`, "text/plain", "x")
		if a := h.mustSend("POST", "/v1/datasets"+query, body, header[2:]...); a.StatusCode != 400 {
			t.Errorf("%s: %d %s", query, a.StatusCode, a.body)
		}
	}
	var job struct {
		ID     string `json:"job_id"`
		Status string
	}
	h.mustPost("/v1/embed-jobs", strings.Replace(good, `"e"`, `"e+job=slow-cancel"`, 1)).mustDecodeInto(t, &job)
	h.mustPost("/v1/embed-jobs/"+job.ID+"/cancel", "")
	if h.mustSend("GET", "/v1/embed-jobs/"+job.ID, "").mustDecodeInto(t, &job); job.Status != "cancelling" {
		t.Errorf("cancelling %+v", job)
	}
	for range 4 {
		h.mustSend("GET", "/v1/embed-jobs/"+job.ID, "").mustDecodeInto(t, &job)
	}
	if job.Status != "cancelled" {
		t.Errorf("cancelled %+v", job)
	}
	if a := h.mustPost("/v1/embed-jobs/"+job.ID+"/cancel", ""); a.StatusCode != 400 {
		t.Errorf("late cancel: %d", a.StatusCode)
	}
	if a := h.mustSend("GET", "/v1/embed-jobs", ""); strings.Count(a.body, "job_id") != 1 {
		t.Errorf("jobs %s", a.body)
	}
	if a := h.mustSend("GET", "/v1/datasets?validationStatus=failed", ""); strings.Count(a.body, `"dataset_type"`) != 1 {
		t.Errorf("datasets %s", a.body)
	}
	if a := h.mustSend("DELETE", "/v1/datasets/"+d.Dataset.ID, ""); a.StatusCode != 200 || h.mustSend("GET", "/v1/datasets/"+d.Dataset.ID, "").StatusCode != 404 {
		t.Errorf("delete: %d", a.StatusCode)
	}
}

func TestCohereTunesModels(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	d := h.mustCohereDataset(t, "chat-finetune-input", examples(2))
	const path = "/v1/finetuning/finetuned-models"
	body := `{"name":"n","settings":{"base_model":{"base_type":"BASE_TYPE_CHAT"},"dataset_id":"` + d.Dataset.ID + `","hyperparameters":{"train_epochs":2}}}`
	var got struct {
		Model struct{ ID, Name, Status string } `json:"finetuned_model"`
	}
	h.mustPost(path, body).mustDecodeInto(t, &got)
	for _, want := range []string{"STATUS_FINETUNING", "STATUS_DEPLOYING_API", "STATUS_READY"} {
		if h.mustSend("GET", path+"/"+got.Model.ID, "").mustDecodeInto(t, &got); got.Model.Status != want || got.Model.Name != "n" {
			t.Errorf("model %+v, want %s", got, want)
		}
	}
	if a := h.mustSend("GET", path+"/"+got.Model.ID+"/events", ""); strings.Count(a.body, "STATUS_") != 4 {
		t.Errorf("events %s", a.body)
	}
	if a := h.mustSend("GET", path+"/"+got.Model.ID+"/training-step-metrics", ""); strings.Count(a.body, "loss") != 3 {
		t.Errorf("metrics %s", a.body)
	}
	for name, broken := range map[string]string{
		"no settings": `{"name":"n"}`, "an unknown type": strings.Replace(body, "BASE_TYPE_CHAT", "CHAT", 1), "an unknown member": strings.Replace(body, `{`, `{"suffix":"x",`, 1),
		"an unknown dataset": strings.Replace(body, d.Dataset.ID, "none", 1), "an unknown parameter": strings.Replace(body, "train_epochs", "n_epochs", 1),
	} {
		if a := h.mustPost(path, broken); a.StatusCode != 400 {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
	if a := h.mustSend("GET", path, ""); !strings.Contains(a.body, `"total_size":1`) {
		t.Errorf("list %s", a.body)
	}
	if a := h.mustSend("DELETE", path+"/"+got.Model.ID, ""); a.StatusCode != 200 || h.mustSend("GET", path+"/"+got.Model.ID, "").StatusCode != 404 {
		t.Errorf("delete: %d", a.StatusCode)
	}
}
