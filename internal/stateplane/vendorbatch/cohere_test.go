package vendorbatch_test

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/apierr"
)

const (
	embedURL  = "/v1/embeddings"
	cohereJob = `{"job_id":"j1","name":"modelgate [batch_own1]","status":"complete","created_at":"2025-01-02T03:04:05Z","input_dataset_id":"d1","output_dataset_id":"d2",
"model":"embed-v4.0","truncate":"END","meta":{"api_version":{"version":"1"},"billed_units":{"input_tokens":12}}}`
	cohereUpload = "POST /v1/datasets?keep_fields=custom_id&name=modelgate-batch_own1.jsonl&type=embed-input"
)

func embedLines(inputs ...string) (s text) {
	for i, input := range inputs {
		s += text(`{"custom_id":"e` + string(rune('0'+i)) + `","body":{"model":"embed-v4.0","input":` + input + "}}\n")
	}
	return s
}

func TestCohereHasEmbedJobs(t *testing.T) {
	fake := newFake(t, map[string]string{
		cohereUpload: `{"id":"d1"}`, "GET /v1/datasets/d1": `{"dataset":{"id":"d1","validation_status":"validated"}}`,
		"POST /v1/embed-jobs":           `{"job_id":"j1","meta":{}}`,
		"GET /v1/embed-jobs/j1":         cohereJob,
		"POST /v1/embed-jobs/j1/cancel": ``,
		"GET /v1/embed-jobs":            `{"embed_jobs":[` + cohereJob + `]}`,
		"GET /v1/datasets/d2":           `{"dataset":{"id":"d2","dataset_parts":[{"url":"https://store.example/p1","index":1},{"url":"https://store.example/p0","index":0}]}}`,
		"GET https://store.example/p1":  "Obj\x01" + "\x02\x16avro.schema\x10\"string\"\x00" + "0123456789abcdef", // no blocks
	})
	fake.stream = map[string]func() io.ReadCloser{"GET https://store.example/p0": func() io.ReadCloser {
		f, err := os.Open("testdata/embed-deflate.txt")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return io.NopCloser(base64.NewDecoder(base64.StdEncoding, f))
	}}
	v, in := mustVendor(t, "cohere"), inputOf(embedURL, "", embedLines(`"zero"`, `"one"`, `"two"`, `["three","four"]`))
	b, err := v.Create(t.Context(), fake, in)
	if err != nil {
		t.Fatal(err)
	}
	_, content := fake.fileOf(cohereUpload, "data")
	want := `{"custom_id":"e0","text":"zero"}
{"custom_id":"e1","text":"one"}
{"custom_id":"e2","text":"two"}
{"custom_id":"modelgateline4x0","text":"three"}
{"custom_id":"modelgateline4x1","text":"four"}
`
	if content != want {
		t.Errorf("the dataset is %s, want %s", content, want)
	}
	var body any
	if err := json.Unmarshal([]byte(fake.bodies["POST /v1/embed-jobs"]), &body); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(any(map[string]any{"model": "embed-v4.0", "dataset_id": "d1", "input_type": "search_document", "name": "modelgate [batch_own1]",
		"embedding_types": []any{"float"}}), body); diff != "" {
		t.Error(diff)
	}
	if b.ID != "j1" || b.Status != inProgress {
		t.Errorf("the batch is %+v", b)
	}
	if b, err = v.Get(t.Context(), fake, "j1"); err != nil || b.Status != completed || b.Usage.InputTokens != 12 {
		t.Fatalf("Get() = %+v, %v", b, err)
	}
	_, all := mustResults(t, v, fake, b, in)
	if diff := cmp.Diff([]string{"e0 200", "e1 200", "e2 200", "e3 missing_result"}, describeAll(all)); diff != "" {
		t.Fatal(diff)
	}
	if want := `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1.1,-2,`; !strings.HasPrefix(string(all[1].Body), want) {
		t.Errorf("the result is %s, want %s", all[1].Body, want)
	}
	if b, err := v.Find(t.Context(), fake, in); err != nil || b.ID != "j1" {
		t.Errorf("Find() = %+v, %v", b, err)
	}
	if b, err := v.Cancel(t.Context(), fake, "j1"); err != nil || b.Status != completed {
		t.Errorf("Cancel(ended) = %+v, %v", b, err)
	}
}

func TestCohereJobsWaitForTheirDataset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		routes := map[string]string{cohereUpload: `{"id":"d1"}`, "GET /v1/datasets/d1": `{"dataset":{"validation_status":"processing"}}`,
			"DELETE /v1/datasets/d1": ""}
		fake := newFake(t, routes)
		v, in := mustVendor(t, "cohere"), inputOf(embedURL, "", embedLines(`"zero"`))
		if _, err := v.Create(t.Context(), fake, in); err == nil || apierr.From(err).Kind != apierr.Unavailable || len(fake.calls) < 5 {
			t.Errorf("Create(never validated) = %v after %v", err, fake.calls)
		}
		routes["GET /v1/datasets/d1"] = `{"dataset":{"validation_status":"failed","validation_error":"line 3 is bad"}}`
		if _, err := v.Create(t.Context(), fake, in); err == nil || !strings.Contains(err.Error(), "line 3 is bad") {
			t.Errorf("Create(refused) = %v", err)
		}
	})
}

func TestCohereRefusesWhatAJobCannotDo(t *testing.T) {
	for lines, param := range map[text]string{
		`{"custom_id":"a","body":{"model":"m","input":"x","dimensions":256}}` + "\n": "body.dimensions",
		`{"custom_id":"a","body":{"model":"m","input":"x","input_type":"classification"}}` + "\n" +
			`{"custom_id":"b","body":{"model":"m","input":"x","input_type":"search_query"}}` + "\n": "body.input_type",
	} {
		if e := mustRefuse(t, "cohere", inputOf(embedURL, "", lines)).Data[0]; *e.Param != param {
			t.Errorf("%s: %+v, want an error about %s", lines, e, param)
		}
	}
}
