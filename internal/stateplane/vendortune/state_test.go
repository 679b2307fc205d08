package vendortune_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"modelgate/internal/stateplane/vendortune"
)

// reading is how a job is read from a vendor: the request, and a response with a word for
// the state.
type reading struct{ id, request, response string }

var readings = map[string]reading{
	"openai":       {"j", "GET /fine_tuning/jobs/j", `{"id":"j","status":%q,"fine_tuned_model":"ft:m","finished_at":9,"trained_tokens":5,"estimated_finish":8}`},
	"azure-openai": {"j", "GET /fine_tuning/jobs/j", `{"id":"j","status":%q,"fine_tuned_model":"ft:m","finished_at":9,"trained_tokens":5,"estimated_finish":8}`},
	"bedrock":      {"j", "GET bedrock/model-customization-jobs/j", `{"jobArn":"j","status":%q,"outputModelArn":"ft:m","endTime":"1970-01-01T00:00:09Z"}`},
	"vertex-ai": {"j", "GET /v1/projects/p1/locations/europe-west4/tuningJobs/j",
		`{"name":"projects/1/locations/l/tuningJobs/j","state":%q,"tunedModel":{"endpoint":"ft:m"},"endTime":"1970-01-01T00:00:09Z",
		"tuningDataStats":{"supervisedTuningDataStats":{"totalBillableTokenCount":"5"}}}`},
	"fireworks-ai": {"j", "GET host/v1/accounts/acme/supervisedFineTuningJobs/j",
		`{"name":"accounts/acme/supervisedFineTuningJobs/j","state":%q,"outputModel":"ft:m","completedTime":"1970-01-01T00:00:09Z"}`},
	"together-ai": {"j", "GET /fine-tunes/j", `{"id":"j","status":%q,"model_output_name":"ft:m","updated_at":"1970-01-01T00:00:09Z","token_count":5,
		"progress":{"estimate_available":true,"seconds_remaining":60}}`},
	"mistral-ai": {"j", "GET /fine_tuning/jobs/j", `{"id":"j","status":%q,"fine_tuned_model":"ft:m","modified_at":9,"trained_tokens":5}`},
	"cohere":     {"j", "GET /v1/finetuning/finetuned-models/j", `{"finetuned_model":{"id":"j","status":%q,"updated_at":"1970-01-01T00:00:09Z"}}`},
}

// words are the states in the vendors' schemas, and what they read as.
var words = map[string]string{
	"openai": "validating_files=validating_files queued=queued running=running paused=running succeeded=succeeded failed=failed cancelled=cancelled",
	"azure-openai": "validating_files=validating_files queued=queued running=running paused=running succeeded=succeeded failed=failed cancelled=cancelled " +
		"created=queued pending=queued notRunning=queued pausing=running resuming=running postprocessing=running cancelling=cancelled canceled=cancelled deleted=cancelled",
	"bedrock": "InProgress=running Completed=succeeded Failed=failed Stopping=cancelled Stopped=cancelled",
	"vertex-ai": "JOB_STATE_UNSPECIFIED=queued JOB_STATE_QUEUED=queued JOB_STATE_PENDING=queued JOB_STATE_RUNNING=running JOB_STATE_SUCCEEDED=succeeded " +
		"JOB_STATE_FAILED=failed JOB_STATE_CANCELLING=cancelled JOB_STATE_CANCELLED=cancelled JOB_STATE_PAUSED=running JOB_STATE_EXPIRED=cancelled " +
		"JOB_STATE_UPDATING=running JOB_STATE_PARTIALLY_SUCCEEDED=succeeded",
	"fireworks-ai": "JOB_STATE_UNSPECIFIED=queued JOB_STATE_CREATING=running JOB_STATE_RUNNING=running JOB_STATE_COMPLETED=succeeded JOB_STATE_FAILED=failed " +
		"JOB_STATE_CANCELLED=cancelled JOB_STATE_DELETING=cancelled JOB_STATE_WRITING_RESULTS=running JOB_STATE_VALIDATING=validating_files " +
		"JOB_STATE_DELETING_CLEANING_UP=cancelled JOB_STATE_PENDING=queued JOB_STATE_EXPIRED=failed JOB_STATE_RE_QUEUEING=queued " +
		"JOB_STATE_CREATING_INPUT_DATASET=running JOB_STATE_IDLE=running JOB_STATE_CANCELLING=cancelled JOB_STATE_EARLY_STOPPED=succeeded " +
		"JOB_STATE_PAUSED=running JOB_STATE_EVALUATION=running",
	"together-ai": "pending=queued queued=queued running=running compressing=running uploading=running cancel_requested=cancelled cancelled=cancelled " +
		"error=failed user_error=failed completed=succeeded",
	"mistral-ai": "QUEUED=queued STARTED=running VALIDATING=validating_files VALIDATED=queued RUNNING=running FAILED_VALIDATION=failed FAILED=failed " +
		"SUCCESS=succeeded CANCELLED=cancelled CANCELLATION_REQUESTED=cancelled",
	"cohere": "STATUS_UNSPECIFIED=queued STATUS_FINETUNING=running STATUS_DEPLOYING_API=running STATUS_READY=succeeded STATUS_FAILED=failed " +
		"STATUS_DELETED=cancelled STATUS_TEMPORARILY_OFFLINE=succeeded STATUS_PAUSED=running STATUS_QUEUED=queued",
}

func mustGet(t *testing.T, provider, word string) *vendortune.Job {
	t.Helper()
	r := readings[provider]
	a, v := account(map[string]string{r.request: fmt.Sprintf(r.response, word)})
	job, err := mustFor(t, provider).Get(t.Context(), a, r.id)
	if err != nil {
		t.Fatalf("%s: Get() with state %s = %v, requests %q", provider, word, err, v.requests)
	}
	return job
}

func TestStatesOfVendorsReadAsThoseOfTheSpecification(t *testing.T) {
	if len(words) != len(vendortune.Providers()) {
		t.Errorf("%d providers have words, want %d", len(words), len(vendortune.Providers()))
	}
	for provider, list := range words {
		for pair := range strings.FieldsSeq(list) {
			word, want, _ := strings.Cut(pair, "=")
			job := mustGet(t, provider, word)
			if string(job.Status) != want || job.ProviderStatus != word || job.UnknownStatus {
				t.Errorf("%s: %s reads as %s (%s, unknown %t), want %s", provider, word, job.Status, job.ProviderStatus, job.UnknownStatus, want)
			}
		}
		if job := mustGet(t, provider, "NEW_STATE"); job.Status != vendortune.Running || job.ProviderStatus != "NEW_STATE" || !job.UnknownStatus {
			t.Errorf("%s: an unknown state reads as %s (%s, unknown %t), want running and unknown", provider, job.Status, job.ProviderStatus, job.UnknownStatus)
		}
	}
}

// S-170, S-171, S-178, S-183, S-169.
func TestFieldsAreNullUntilTheirState(t *testing.T) {
	hasTokens := map[string]bool{"openai": true, "azure-openai": true, "vertex-ai": true, "together-ai": true, "mistral-ai": true}
	for provider, list := range words {
		for pair := range strings.FieldsSeq(list) {
			word, status, _ := strings.Cut(pair, "=")
			job := mustGet(t, provider, word)
			ended := status == "succeeded" || status == "failed" || status == "cancelled"
			for _, f := range []struct {
				name      string
				set, want bool
			}{
				{"fine_tuned_model", job.FineTunedModel != nil, status == "succeeded"},
				{"finished_at", job.FinishedAt != nil, ended},
				{"trained_tokens", job.TrainedTokens != nil, ended && hasTokens[provider]},
				{"error", job.Error != nil, status == "failed"},
			} {
				if f.set != f.want {
					t.Errorf("%s in %s: %s set is %t, want %t", provider, word, f.name, f.set, f.want)
				}
			}
			if ended && job.EstimatedFinish != nil {
				t.Errorf("%s in %s: estimated_finish = %d of a job that has ended", provider, word, *job.EstimatedFinish)
			}
			if job.Status == vendortune.Failed && (job.Error == nil || job.Error.Code == "" || job.Error.Message == "") {
				t.Errorf("%s in %s: error = %+v, want a code and a message", provider, word, job.Error)
			}
		}
	}
	if job := mustGet(t, "together-ai", "running"); job.EstimatedFinish == nil {
		t.Error("estimated_finish of a running job is lost")
	}
}

// Whatever a vendor sends, a job has the members and types of the specification.
func TestEveryJobHasTheShapeOfTheSpecification(t *testing.T) {
	values := []string{`null`, `0`, `-1`, `1.5`, `"x"`, `""`, `[]`, `{}`, `true`, `"2026-11-01T10:00:00Z"`}
	fields := []string{"created_at", "finished_at", "error", "fine_tuned_model", "hyperparameters", "trained_tokens", "seed", "metadata", "result_files",
		"integrations", "method", "progress", "events", "updated_at", "createTime", "endTime", "hyperParameters", "labels", "tunedModel"}
	random := rand.New(rand.NewPCG(1, 2))
	read := 0
	for range 400 {
		for provider, r := range readings {
			words := strings.Fields(words[provider])
			word, _, _ := strings.Cut(words[random.IntN(len(words))], "=")
			response := fmt.Sprintf(r.response, word)
			member := fmt.Sprintf(`%q:%s,`, fields[random.IntN(len(fields))], values[random.IntN(len(values))])
			response = strings.Replace(response, "{", "{"+member, 1+random.IntN(2))
			a, _ := account(map[string]string{r.request: response})
			job, err := mustFor(t, provider).Get(t.Context(), a, r.id)
			if err != nil {
				continue // a wrong type is a failure of the provider
			}
			read++
			checkShape(t, mustMarshal(t, job))
		}
	}
	if read < 1000 {
		t.Errorf("only %d jobs were read", read)
	}
}

func checkShape(t *testing.T, text string) {
	t.Helper()
	var job map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	shapes := map[string]string{
		"id": `"`, "object": `"`, "created_at": `0-`, "error": `{n`, "fine_tuned_model": `"n`, "finished_at": `0-n`, "hyperparameters": `{`, "model": `"`,
		"organization_id": `"`, "result_files": `[`, "status": `"`, "trained_tokens": `0-n`, "training_file": `"`, "validation_file": `"n`, "seed": `0-`,
		"integrations": `[n`, "estimated_finish": `0-n`, "metadata": `{n`, "provider_status": `"`,
	}
	for name, first := range shapes {
		value := string(job[name])
		if value == "" || !strings.ContainsAny(first, value[:1]) && !(first[0] == '0' && value[0] >= '0' && value[0] <= '9') {
			t.Fatalf("%s is %q, want a value that begins with one of %q, in %s", name, value, first, text)
		}
	}
	var h map[string]json.RawMessage
	if json.Unmarshal(job["hyperparameters"], &h) != nil || h["n_epochs"] == nil || string(h["n_epochs"]) == "null" {
		t.Errorf("hyperparameters %s have no n_epochs", job["hyperparameters"])
	}
}

func TestReasonsOfFailedJobsAreKept(t *testing.T) {
	for provider, response := range map[string]string{
		"openai":       `{"id":"j","status":"failed","error":{"code":"invalid_training_file","message":"line 3","param":"training_file"}}`,
		"azure-openai": `{"id":"j","status":"failed","error":{"code":"c","message":"line 3"}}`,
		"bedrock":      `{"jobArn":"j","status":"Failed","failureMessage":"line 3"}`,
		"vertex-ai":    `{"name":"a/j","state":"JOB_STATE_FAILED","error":{"code":3,"message":"line 3"}}`,
		"fireworks-ai": `{"name":"a/j","state":"JOB_STATE_FAILED","status":{"code":"INVALID_ARGUMENT","message":"line 3"}}`,
		"together-ai":  `{"id":"j","status":"error","events":[{"type":"job_start","message":"x"},{"type":"job_error","message":"line 3"}]}`,
		"mistral-ai":   `{"id":"j","status":"FAILED","events":[{"name":"status-updated","data":{"status":"FAILED","error":"line 3"}}]}`,
	} {
		a, _ := account(map[string]string{readings[provider].request: response})
		job, err := mustFor(t, provider).Get(t.Context(), a, "j")
		if err != nil || job.Error == nil || job.Error.Message != "line 3" || job.Error.Code == "" {
			t.Errorf("%s: %v, error = %+v, want the vendor's message", provider, err, job.Error)
		}
	}
}

func TestPausedModelsOfCohereAreReady(t *testing.T) {
	r := readings["cohere"]
	a, _ := account(map[string]string{r.request: `{"finetuned_model":{"id":"j","status":"STATUS_PAUSED","completed_at":"2026-11-01T10:00:00Z"}}`})
	job, err := mustFor(t, "cohere").Get(t.Context(), a, "j")
	if err != nil || job.Status != vendortune.Succeeded || job.FineTunedModel == nil || *job.FineTunedModel != "j-ft" {
		t.Errorf("Get() = %+v, %v, want a job that succeeded", job, err)
	}
}
