package vendortune_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/vendortune"
)

func checkJSON(t *testing.T, text string) {
	t.Helper()
	if text != "" && !json.Valid([]byte(text)) {
		t.Fatalf("%q is not JSON", text)
	}
}

// manyEvents are events of vendors that return all of them, in the order of time.
func manyEvents(n int) map[string]map[string]string {
	var together, mistral, cohere []string
	for i := range n {
		at := fmt.Sprintf("2026-11-01T10:00:%02dZ", i)
		together = append(together, fmt.Sprintf(`{"created_at":%q,"level":"warning","message":"m%d","type":"job_start"}`, at, i))
		mistral = append(mistral, fmt.Sprintf(`{"name":"m%d","created_at":%d}`, i, 1000+i))
		cohere = append(cohere, fmt.Sprintf(`{"status":"m%d","created_at":%q}`, i, at))
	}
	half := n / 2
	return map[string]map[string]string{
		"together-ai": {"GET /fine-tunes/j/events": `{"data":[` + strings.Join(together, ",") + `]}`},
		"mistral-ai":  {"GET /fine_tuning/jobs/j": `{"id":"j","status":"RUNNING","events":[` + strings.Join(mistral, ",") + `]}`},
		"cohere": {
			"GET /v1/finetuning/finetuned-models/j/events?page_size=100&page_token=":  `{"events":[` + strings.Join(cohere[:half], ",") + `],"next_page_token":"t"}`,
			"GET /v1/finetuning/finetuned-models/j/events?page_size=100&page_token=t": `{"events":[` + strings.Join(cohere[half:], ",") + `],"next_page_token":""}`,
		},
	}
}

// Whatever the limit, the pages together are the list, the newest first.
func TestPagesOfEventsAreTheList(t *testing.T) {
	const n = 13
	for provider, script := range manyEvents(n) {
		for _, limit := range []int{0, 1, 2, 5, n - 1, n, n + 1, 1000} {
			a, _ := account(script)
			var all []string
			p := vendortune.Page{Limit: limit}
			for range n + 1 {
				page, err := mustFor(t, provider).Events(t.Context(), a, "j", p)
				if err != nil || page.Object != "list" || limit > 0 && len(page.Data) > limit {
					t.Fatalf("%s: Events(%+v) = %+v, %v", provider, p, page, err)
				}
				for _, e := range page.Data {
					all = append(all, e.Message[strings.LastIndexByte(e.Message, 'm'):])
				}
				if !page.HasMore {
					break
				}
				p.After = *page.LastID
			}
			want := []string{}
			for i := range n {
				want = append(want, fmt.Sprintf("m%d", n-1-i))
			}
			if !slices.Equal(all, want) {
				t.Errorf("%s with limit %d: events %q, want %q", provider, limit, all, want)
			}
		}
		a, _ := account(script)
		_, err := mustFor(t, provider).Events(t.Context(), a, "j", vendortune.Page{After: "unknown"})
		checkError(t, provider, err, apierr.Invalid, "after", "after")
	}
}

// New events must not move a cursor.
func TestIDsOfEventsStayWhileOthersAreAdded(t *testing.T) {
	ids := func(n int) (all []string) {
		a, _ := account(manyEvents(n)["together-ai"])
		page, err := mustFor(t, "together-ai").Events(t.Context(), a, "j", vendortune.Page{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Data {
			all = append(all, e.Message+"="+e.ID)
		}
		return all
	}
	before, after := ids(4), ids(6)
	if !slices.Equal(before, after[2:]) {
		t.Errorf("events %q become %q", before, after)
	}
}

func TestEventsHaveTheShapeOfTheSpecification(t *testing.T) {
	a, _ := account(manyEvents(1)["together-ai"])
	page, err := mustFor(t, "together-ai").Events(t.Context(), a, "j", vendortune.Page{})
	if err != nil {
		t.Fatal(err)
	}
	compareJSON(t, "the events", mustMarshal(t, page), `{"object":"list","data":[{"id":"j:event:0","object":"fine_tuning.job.event","created_at":1793527200,
		"level":"warn","message":"m0","type":"message"}],"has_more":false,"first_id":"j:event:0","last_id":"j:event:0"}`)
}

func TestPagesOfOpenAIAreItsOwn(t *testing.T) {
	a, v := account(map[string]string{
		"GET /fine_tuning/jobs/j/events":      `{"object":"list","data":[{"object":"fine_tuning.job.event","id":"e1","created_at":1,"level":"info","message":"x","data":{"step":1},"type":"metrics"}],"has_more":true}`,
		"GET /fine_tuning/jobs/j/checkpoints": `{"object":"list","data":[],"has_more":false}`,
	})
	openai := mustFor(t, "openai")
	events, err := openai.Events(t.Context(), a, "j", vendortune.Page{After: "e0", Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	compareJSON(t, "the events", mustMarshal(t, events), `{"object":"list","data":[{"object":"fine_tuning.job.event","id":"e1","created_at":1,"level":"info",
		"message":"x","data":{"step":1},"type":"metrics"}],"has_more":true,"first_id":"e1","last_id":"e1"}`)
	checkpoints, err := openai.Checkpoints(t.Context(), a, "j", vendortune.Page{})
	if err != nil {
		t.Fatal(err)
	}
	compareJSON(t, "the checkpoints", mustMarshal(t, checkpoints), `{"object":"list","data":[],"has_more":false,"first_id":null,"last_id":null}`)
	want := []string{"GET /fine_tuning/jobs/j/events?after=e0&limit=1", "GET /fine_tuning/jobs/j/checkpoints?limit=20"}
	if !slices.Equal(v.requests, want) {
		t.Errorf("requests %q, want %q", v.requests, want)
	}
}

// S-184 to S-186.
func TestCheckpointsHaveTheShapeOfTheSpecification(t *testing.T) {
	for provider, tt := range map[string]struct{ request, response, want string }{
		"openai": {"GET /fine_tuning/jobs/j/checkpoints", `{"data":[{"object":"fine_tuning.job.checkpoint","id":"c1","created_at":1,
			"fine_tuned_model_checkpoint":"ft:m:step-8","fine_tuning_job_id":"j","metrics":{"step":8,"train_loss":0.4},"step_number":8}]}`,
			`{"id":"c1","object":"fine_tuning.job.checkpoint","created_at":1,"fine_tuned_model_checkpoint":"ft:m:step-8","fine_tuning_job_id":"j",
			"metrics":{"step":8,"train_loss":0.4},"step_number":8}`},
		"together-ai": {"GET /fine-tunes/j/checkpoints", `{"data":[{"step":4,"created_at":"2026-11-01T10:00:00Z","path":"p/4","checkpoint_type":"Intermediate"},
			{"step":8,"created_at":"2026-11-01T11:00:00Z","path":"p/8","object_name":"acme/m","checkpoint_type":"Final"}]}`,
			`{"id":"j:step:8","object":"fine_tuning.job.checkpoint","created_at":1793530800,"fine_tuned_model_checkpoint":"acme/m","fine_tuning_job_id":"j",
			"metrics":{"step":8},"step_number":8}`},
		"mistral-ai": {"GET /fine_tuning/jobs/j", `{"id":"j","status":"RUNNING","checkpoints":[{"metrics":{"train_loss":0.5,"valid_loss":null},"step_number":10,"created_at":7}]}`,
			`{"id":"j:step:10","object":"fine_tuning.job.checkpoint","created_at":7,"fine_tuned_model_checkpoint":"","fine_tuning_job_id":"j",
			"metrics":{"step":10,"train_loss":0.5},"step_number":10}`},
		"vertex-ai": {"GET /v1/projects/p1/locations/europe-west4/tuningJobs/j", `{"name":"a/j","state":"JOB_STATE_SUCCEEDED","endTime":"2026-11-01T10:00:00Z",
			"tunedModel":{"model":"m","checkpoints":[{"checkpointId":"1","step":"12","endpoint":"projects/1/endpoints/2"}]}}`,
			`{"id":"j:step:12","object":"fine_tuning.job.checkpoint","created_at":1793527200,"fine_tuned_model_checkpoint":"projects/1/endpoints/2",
			"fine_tuning_job_id":"j","metrics":{"step":12},"step_number":12}`},
	} {
		a, _ := account(map[string]string{tt.request: tt.response})
		page, err := mustFor(t, provider).Checkpoints(t.Context(), a, "j", vendortune.Page{Limit: 1})
		if err != nil || len(page.Data) != 1 {
			t.Errorf("%s: Checkpoints() = %+v, %v", provider, page, err)
			continue
		}
		compareJSON(t, provider, mustMarshal(t, page.Data[0]), tt.want)
	}
}

func TestListsThatVendorsLackAreRefusedByName(t *testing.T) {
	for provider, lists := range map[string]string{"bedrock": "events checkpoints", "vertex-ai": "events", "fireworks-ai": "events checkpoints", "cohere": "checkpoints"} {
		a, v := account(nil)
		for list := range strings.FieldsSeq(lists) {
			var err error
			if list == "events" {
				_, err = mustFor(t, provider).Events(t.Context(), a, "j", vendortune.Page{})
			} else {
				_, err = mustFor(t, provider).Checkpoints(t.Context(), a, "j", vendortune.Page{})
			}
			checkError(t, provider, err, apierr.Unsupported, "", provider, list)
		}
		if len(v.requests) > 0 {
			t.Errorf("%s: requests %q", provider, v.requests)
		}
	}
}

// Two pages of three jobs, as each vendor pages.
func TestAccountsAreListedByPages(t *testing.T) {
	const base = "GET /v1/projects/p1/locations/europe-west4/tuningJobs"
	for provider, script := range map[string]map[string]string{
		"openai": {"GET /fine_tuning/jobs?limit=2": `{"data":[{"id":"1"},{"id":"2"}],"has_more":true}`,
			"GET /fine_tuning/jobs?after=2&limit=2": `{"data":[{"id":"3"}],"has_more":false}`},
		"bedrock": {"GET bedrock/model-customization-jobs?maxResults=2&sortBy=CreationTime&sortOrder=Descending": `{"nextToken":"t",
				"modelCustomizationJobSummaries":[{"jobArn":"1"},{"jobArn":"2"}]}`,
			"GET bedrock/model-customization-jobs?maxResults=2&nextToken=t&sortBy=CreationTime&sortOrder=Descending": `{
				"modelCustomizationJobSummaries":[{"jobArn":"3"}]}`},
		"vertex-ai": {base + "?pageSize=2": `{"tuningJobs":[{"name":"a/1"},{"name":"a/2"}],"nextPageToken":"t"}`,
			base + "?pageSize=2&pageToken=t": `{"tuningJobs":[{"name":"a/3"}]}`},
		"fireworks-ai": {"GET host/v1/accounts/acme/supervisedFineTuningJobs?pageSize=2": `{"supervisedFineTuningJobs":[{"name":"accounts/acme/supervisedFineTuningJobs/1"}],"nextPageToken":"t"}`,
			"GET host/v1/accounts/acme/supervisedFineTuningJobs?pageSize=2&pageToken=t": `{"supervisedFineTuningJobs":[{"name":"accounts/acme/supervisedFineTuningJobs/2"}]}`,
			"GET host/v1/accounts/acme/dpoJobs?pageSize=2":                              `{"dpoJobs":[{"name":"accounts/acme/dpoJobs/3"}]}`},
		"together-ai": {"GET /fine-tunes": `{"data":[{"id":"1"},{"id":"2"},{"id":"3"}]}`},
		"mistral-ai": {"GET /fine_tuning/jobs?page=0&page_size=2": `{"total":3,"data":[{"id":"1"},{"id":"2"}]}`,
			"GET /fine_tuning/jobs?page=1&page_size=2": `{"total":3,"data":[{"id":"3"}]}`},
		"cohere": {"GET /v1/finetuning/finetuned-models?order_by=created_at+desc&page_size=2&page_token=": `{"finetuned_models":[{"id":"1"},{"id":"2"}],"next_page_token":"t"}`,
			"GET /v1/finetuning/finetuned-models?order_by=created_at+desc&page_size=2&page_token=t": `{"finetuned_models":[{"id":"3"}]}`},
	} {
		a, v := account(script)
		var ids []string
		p := vendortune.Page{Limit: 2}
		for range 4 {
			jobs, err := mustFor(t, provider).List(t.Context(), a, p)
			if err != nil {
				t.Fatalf("%s: List(%+v) = %v, requests %q", provider, p, err, v.requests)
			}
			for _, job := range jobs.Data {
				ids = append(ids, strings.TrimPrefix(job.ID, "dpoJobs/"))
			}
			if p.After = jobs.Next; p.After == "" {
				break
			}
		}
		if !slices.Equal(ids, []string{"1", "2", "3"}) {
			t.Errorf("%s: jobs %q, requests %q", provider, ids, v.requests)
		}
	}
}
