package simulator_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"modelgate/internal/simulator"
)

func TestTheDocumentListsTheFaults(t *testing.T) {
	const name = "../../docs/simulator.md"
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	want.WriteString("| fault | what happens |\n|---|---|\n")
	for _, f := range simulator.Faults() {
		fmt.Fprintf(&want, "| `%s` | %s |\n", f.Form, f.Text)
	}
	if !strings.HasSuffix(string(page), want.String()) {
		t.Errorf("%s does not end in the table of simulator.Faults; it is:\n%s", name, want.String())
	}
}

func TestTheDocumentListsTheRoutesThatKeepState(t *testing.T) {
	page, err := os.ReadFile("../../docs/simulator.md")
	if err != nil {
		t.Fatal(err)
	}
	h := mustServe(t, simulator.Options{})
	for _, tt := range []struct{ word, method, path string }{
		{"uploads in parts", "POST", "/v1/uploads"}, {"[batches]", "GET", "/v1/batches"}, {"fine-tuning jobs", "GET", "/v1/fine_tuning/jobs"},
		{"`/v1/responses/{id}`", "GET", "/v1/responses/x"}, {"`/v1/responses/input_tokens`", "POST", "/v1/responses/input_tokens"},
		{"`/v1/responses/compact`", "POST", "/v1/responses/compact"}, {"`/v1/conversations`", "GET", "/v1/conversations/x"},
		{"`/v1/messages/batches`", "GET", "/v1/messages/batches"}, {"`:batchGenerateContent`", "POST", "/v1beta/models/m:batchGenerateContent"},
		{"`:asyncBatchEmbedContent`", "POST", "/v1beta/models/m:asyncBatchEmbedContent"}, {"`/v1beta/batches`", "GET", "/v1beta/batches"},
		{"`/v1/datasets`", "GET", "/v1/datasets"}, {"`/v1/embed-jobs`", "GET", "/v1/embed-jobs"},
		{"`/v1/finetuning/finetuned-models`", "GET", "/v1/finetuning/finetuned-models"}, {"`/groq/openai/v1`", "GET", "/groq/openai/v1/batches"},
		{"`/azure/openai/v1`", "GET", "/azure/openai/v1/batches"}, {"`/together/v1`", "GET", "/together/v1/batches"},
		{"`/v1/batch/jobs`", "GET", "/v1/batch/jobs"}, {"`/mistral/v1`", "GET", "/mistral/v1/files/x/url"}, {"`/xai/v1`", "GET", "/xai/v1/batches"},
		{"`/v1/accounts/{account}/datasets`", "GET", "/v1/accounts/a/datasets"}, {"`batchInferenceJobs`", "GET", "/v1/accounts/a/batchInferenceJobs"},
		{"`supervisedFineTuningJobs`", "GET", "/v1/accounts/a/supervisedFineTuningJobs"}, {"`/model-invocation-job`", "POST", "/model-invocation-job"},
		{"`/model-invocation-jobs`", "GET", "/model-invocation-jobs"}, {"`/model-customization-jobs`", "GET", "/model-customization-jobs"},
		{"`…/batchPredictionJobs`", "GET", "/v1/projects/p/locations/l/batchPredictionJobs"}, {"`…/tuningJobs`", "GET", "/v1/projects/p/locations/l/tuningJobs"},
		{"`/s3/BUCKET/KEY`", "GET", "/s3/b/k"}, {"`/gcs/BUCKET/KEY`", "GET", "/gcs/b/k"}, {"`/storage/v1/b/BUCKET/o/KEY`", "GET", "/storage/v1/b/b/o/k"},
		{"`/upload/storage/v1/b/BUCKET/o`", "POST", "/upload/storage/v1/b/b/o"},
	} {
		if !strings.Contains(string(page), tt.word) {
			t.Errorf("the page does not name %s", tt.word)
		}
		if a := h.mustSend(tt.method, tt.path, `{}`, anthropicVersion...); strings.Contains(a.body, "body_sha256") {
			t.Errorf("%s %s is an unknown path", tt.method, tt.path)
		}
	}
}
