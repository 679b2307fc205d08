package vendortune_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/vendorcall"
	"modelgate/internal/stateplane/vendortune"
)

// running and ended are words of each vendor.
var running = map[string]string{"openai": "running", "azure-openai": "pending", "bedrock": "InProgress", "vertex-ai": "JOB_STATE_RUNNING",
	"fireworks-ai": "JOB_STATE_RUNNING", "together-ai": "running", "mistral-ai": "RUNNING", "cohere": "STATUS_FINETUNING"}

var ended = map[string]string{"openai": "succeeded", "azure-openai": "canceled", "bedrock": "Completed", "vertex-ai": "JOB_STATE_FAILED",
	"fireworks-ai": "JOB_STATE_COMPLETED", "together-ai": "completed", "mistral-ai": "SUCCESS", "cohere": "STATUS_READY"}

// verbs are the requests of the verbs that vendors have.
var verbs = map[string]map[string]string{
	"openai": {"cancel": "POST /fine_tuning/jobs/j/cancel", "pause": "POST /fine_tuning/jobs/j/pause", "resume": "POST /fine_tuning/jobs/j/resume"},
	"azure-openai": {"cancel": "POST /fine_tuning/jobs/j/cancel", "pause": "POST /fine_tuning/jobs/j/pause",
		"resume": "POST /fine_tuning/jobs/j/resume"},
	"bedrock":   {"cancel": "POST bedrock/model-customization-jobs/j/stop"},
	"vertex-ai": {"cancel": "POST /v1/projects/p1/locations/europe-west4/tuningJobs/j:cancel"},
	"fireworks-ai": {"cancel": "POST host/v1/accounts/acme/supervisedFineTuningJobs/j:cancel",
		"resume": "POST host/v1/accounts/acme/supervisedFineTuningJobs/j:resume"},
	"together-ai": {"cancel": "POST /fine-tunes/j/cancel"},
	"mistral-ai":  {"cancel": "POST /fine_tuning/jobs/j/cancel"},
	"cohere":      {"cancel": "DELETE /v1/finetuning/finetuned-models/j"},
}

func change(v *vendortune.Vendor, verb string) func(context.Context, vendortune.Account, string) (*vendortune.Job, error) {
	return map[string]func(context.Context, vendortune.Account, string) (*vendortune.Job, error){
		"cancel": v.Cancel, "pause": v.Pause, "resume": v.Resume}[verb]
}

func TestVerbsReachTheVendorOrAreRefusedByName(t *testing.T) {
	for provider, r := range readings {
		for _, verb := range []string{"cancel", "pause", "resume"} {
			request := verbs[provider][verb]
			a, v := account(map[string]string{r.request: fmt.Sprintf(r.response, running[provider]), request: `{}`})
			job, err := change(mustFor(t, provider), verb)(t.Context(), a, "j")
			if request == "" {
				checkError(t, provider+" "+verb, err, apierr.Unsupported, "", provider, verb)
				if code := apierr.From(err).CodeOrDefault(); code != "unsupported_operation" || len(v.requests) > 0 {
					t.Errorf("%s %s: code %s, requests %q", provider, verb, code, v.requests)
				}
				continue
			}
			if err != nil || job.ID != "j" || !slices.Equal(v.requests, []string{r.request, request, r.request}) {
				t.Errorf("%s %s = %+v, %v, requests %q", provider, verb, job, err, v.requests)
			}
		}
	}
}

// S-238.
func TestJobsThatHaveEndedAreNotChanged(t *testing.T) {
	for provider, r := range readings {
		for verb, request := range verbs[provider] {
			a, v := account(map[string]string{r.request: fmt.Sprintf(r.response, ended[provider]), request: `{}`})
			_, err := change(mustFor(t, provider), verb)(t.Context(), a, "j")
			checkError(t, provider+" "+verb, err, apierr.Invalid, "", "ended")
			if slices.Contains(v.requests, request) {
				t.Errorf("%s %s: sent to the vendor", provider, verb)
			}
		}
	}
}

func TestErrorsOfVendorsEndAChange(t *testing.T) {
	r := readings["openai"]
	a, _ := account(map[string]string{r.request: fmt.Sprintf(r.response, "running"),
		"POST /fine_tuning/jobs/j/cancel": `400 {"error":{"message":"already cancelled"}}`})
	_, err := mustFor(t, "openai").Cancel(t.Context(), a, "j")
	checkError(t, "cancel", err, apierr.Invalid, "", "already cancelled")
	a, _ = account(nil)
	_, err = mustFor(t, "openai").Cancel(t.Context(), a, "j")
	checkError(t, "cancel of an unknown job", err, apierr.NotFound, "")
}

// vanishing is a vendor that forgets a job when it is deleted.
type vanishing struct {
	*vendor
	reading string
}

func (v vanishing) Call(ctx context.Context, r *vendorcall.Request) (*vendorcall.Response, error) {
	if r.Method == "DELETE" {
		delete(v.script, v.reading)
	}
	return v.vendor.Call(ctx, r)
}

func TestCancelledJobsMayVanish(t *testing.T) {
	r := readings["cohere"]
	a, v := account(map[string]string{r.request: fmt.Sprintf(r.response, "STATUS_QUEUED"), "DELETE /v1/finetuning/finetuned-models/j": `{}`})
	a.Caller = vanishing{v, r.request}
	job, err := mustFor(t, "cohere").Cancel(t.Context(), a, "j")
	if err != nil || job.Status != vendortune.Cancelled || job.FinishedAt != nil && job.FineTunedModel != nil {
		t.Errorf("Cancel() = %+v, %v, want a cancelled job", job, err)
	}
}

func TestHostileIDsNeverChangeThePath(t *testing.T) {
	for _, provider := range vendortune.Providers() {
		v := mustFor(t, provider)
		for _, id := range []string{"", ".", "..", "../files", "a/../b", "a/./b", strings.Repeat("x", 513)} {
			a, sent := account(nil)
			_, err := v.Get(t.Context(), a, id)
			checkError(t, fmt.Sprintf("%s Get(%q)", provider, id), err, apierr.NotFound, "")
			if len(sent.requests) > 0 {
				t.Errorf("%s: Get(%q) sent %q", provider, id, sent.requests)
			}
		}
		for _, id := range []string{"a/b", "a?b=c", "a#b", "a%2Fb", "a b", "ä", "a\nb"} {
			a, sent := account(nil)
			_, err := v.Get(t.Context(), a, id)
			checkError(t, fmt.Sprintf("%s Get(%q)", provider, id), err, apierr.NotFound, "")
			plain, _ := account(nil)
			want := plain.Caller.(*vendor)
			_, _ = v.Get(t.Context(), plain, "x")
			if len(sent.requests) != 1 || strings.Count(sent.requests[0], "/") != strings.Count(want.requests[0], "/") || strings.ContainsAny(sent.requests[0], "?#\n") {
				t.Errorf("%s: Get(%q) sent %q", provider, id, sent.requests)
			}
		}
	}
}

func TestMissingOptionsAreNamed(t *testing.T) {
	for provider, option := range map[string]string{"vertex-ai": "project_id", "fireworks-ai": "account_id"} {
		a, _ := account(nil)
		a.Options = nil
		_, err := mustFor(t, provider).Get(t.Context(), a, "j")
		checkError(t, provider, err, apierr.Invalid, option, provider, option)
	}
	a, v := account(nil)
	_, err := mustFor(t, "bedrock").Create(t.Context(), a, mustParse(t, `{"model":"m","training_file":"s3://b/k"}`))
	checkError(t, "bedrock", err, apierr.Invalid, "role_arn", "role")
	for provider, prefix := range map[string]string{"bedrock": "s3://", "vertex-ai": "gs://"} {
		_, err := mustFor(t, provider).Create(t.Context(), a, mustParse(t, `{"model":"m","training_file":"file-1","role_arn":"r"}`))
		checkError(t, provider, err, apierr.Invalid, "training_file", prefix)
	}
	if len(v.requests) > 0 {
		t.Errorf("requests %q were sent", v.requests)
	}
}

func TestOtherProvidersAreRefusedWithThoseThatHaveJobs(t *testing.T) {
	if v, ok := vendortune.For("groq"); ok {
		t.Errorf("For(groq) = %v", v)
	}
	checkError(t, "groq", vendortune.Unsupported("groq"), apierr.Unsupported, "", "groq", "openai", "azure-openai", "bedrock", "vertex-ai",
		"fireworks-ai", "together-ai", "mistral-ai", "cohere")
}

func TestJobsAreFoundByTheIDOfTheGateway(t *testing.T) {
	const job = `{"id":"ft-2","status":"queued","metadata":{"gateway_job_id":"ftjob_Own1"}}`
	for _, tt := range []struct {
		provider string
		script   map[string]string
		want     string
	}{
		{"openai", map[string]string{
			"GET /fine_tuning/jobs?limit=100":            `{"data":[{"id":"ft-1","status":"queued"}],"has_more":true}`,
			"GET /fine_tuning/jobs?after=ft-1&limit=100": `{"data":[` + job + `],"has_more":false}`}, "ft-2"},
		{"azure-openai", map[string]string{"GET /fine_tuning/jobs": `{"data":[` + job + `]}`}, "ft-2"},
		{"bedrock", map[string]string{
			"GET bedrock/model-customization-jobs?nameContains=ftjob-own1": `{"modelCustomizationJobSummaries":[
				{"jobArn":"arn:0","jobName":"ftjob-own11","status":"InProgress"},{"jobArn":"arn:1","jobName":"night-ftjob-own1","status":"InProgress"}]}`,
			"GET bedrock/model-customization-jobs/arn:1": `{"jobArn":"arn:1","status":"InProgress"}`}, "arn:1"},
		{"vertex-ai", map[string]string{
			"GET /v1/projects/p1/locations/europe-west4/tuningJobs?pageSize=100":             `{"tuningJobs":[],"nextPageToken":"t"}`,
			"GET /v1/projects/p1/locations/europe-west4/tuningJobs?pageSize=100&pageToken=t": `{"tuningJobs":[{"name":"a/7","labels":{"gateway_job_id":"ftjob-own1"}}]}`}, "7"},
		{"fireworks-ai", map[string]string{"GET host/v1/accounts/acme/dpoJobs/ftjob-own1": `{"name":"accounts/acme/dpoJobs/ftjob-own1"}`}, "dpoJobs/ftjob-own1"},
		{"cohere", map[string]string{"GET /v1/finetuning/finetuned-models": `{"finetuned_models":[{"id":"m0","name":"xftjob_Own1"},{"id":"m1","name":"mine-ftjob_Own1"}]}`}, "m1"},
	} {
		a, v := account(tt.script)
		got, err := mustFor(t, tt.provider).Find(t.Context(), a, "ftjob_Own1")
		if err != nil || got == nil || got.ID != tt.want {
			t.Errorf("%s: Find() = %+v, %v, want %s; requests %q", tt.provider, got, err, tt.want, v.requests)
		}
	}
	for _, provider := range []string{"together-ai", "mistral-ai"} {
		a, _ := account(nil)
		_, err := mustFor(t, provider).Find(t.Context(), a, "ftjob_Own1")
		checkError(t, provider, err, apierr.Unsupported, "", provider)
	}
}

func TestJobsThatDoNotExistAreNotFound(t *testing.T) {
	for provider, script := range map[string]map[string]string{
		"openai":       {"GET /fine_tuning/jobs": `{"data":[],"has_more":true}`},
		"bedrock":      {"GET bedrock/model-customization-jobs": `{}`},
		"vertex-ai":    {"GET /v1/projects/p1/locations/europe-west4/tuningJobs": `{"nextPageToken":"t"}`},
		"fireworks-ai": {},
		"cohere":       {"GET /v1/finetuning/finetuned-models": `{"next_page_token":"t"}`},
	} {
		a, v := account(script)
		if job, err := mustFor(t, provider).Find(t.Context(), a, "ftjob_Own1"); job != nil || err != nil || len(v.requests) > 5 {
			t.Errorf("%s: Find() = %+v, %v, %d requests, want none after a few pages", provider, job, err, len(v.requests))
		}
		a, _ = account(map[string]string{})
		if provider == "fireworks-ai" {
			continue
		}
		_, err := mustFor(t, provider).Find(t.Context(), a, "ftjob_Own1")
		checkError(t, provider+" fails", err, apierr.NotFound, "")
	}
}
