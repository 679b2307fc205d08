package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

// moderatesAs returns a complete response that names a model.
func moderatesAs(model string) behaviour {
	return says(http.StatusOK, "application/json", `{"id":"c","object":"chat.completion","created":1700000001,"model":"`+model+
		`","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}`)
}

// routes are a gateway with two workspaces whose requests took different routes.
type routes struct {
	*people
	team    string            // id of the second workspace
	slug    string            // its slug
	teamKey string            // of the second workspace
	ownKey  string            // of the first one
	ids     map[string]string // of requests: "direct", "config" and "team"
}

func launchRoutes(t *testing.T) *routes {
	t.Helper()
	p := fleet(t, moderatesAs("real-one-2026"), moderatesAs("real-two-2026"))
	settings := strings.NewReplacer("FIRST", p[0].url, "SECOND", p[1].url).Replace(`
version: 1
providers:
  - {slug: first, provider: openai-compatible, custom_host: "FIRST"}
  - {slug: groq, provider: openai-compatible, custom_host: "SECOND"}
configs:
  - slug: pc-routes
    config:
      strategy: {mode: loadbalance}
      targets:
        - {provider: "@first", weight: 0}
        - {provider: "@groq", weight: 1, override_params: {model: real-two}}
`)
	r := &routes{people: &people{gateway: launchFor(t, settings, "MODELGATE_TRUSTED_HOSTS=127.0.0.1", "MODELGATE_MASTER_KEY=the master key of a conformance test")}, ids: map[string]string{}}
	w := r.root(t, "POST", "/v1/admin/workspaces", `{"name":"team"}`)
	r.team, r.slug = fmt.Sprint(w["id"]), fmt.Sprint(w["slug"])
	scopes := `"scopes":["completions.write","logs.list","logs.view","logs.export","analytics.view"]`
	r.teamKey = r.made(t, "/v1/api-keys/workspace/service", `{"name":"t","workspace_id":"`+r.slug+`",`+scopes+`}`)
	r.ownKey = r.made(t, "/v1/api-keys/workspace/service", `{"name":"o","workspace_id":"default",`+scopes+`}`)
	chat := modelRoutes[0]
	send := func(name, key string, header ...string) {
		var got response
		waittest.Until(t, "the gateway knows the key", func() bool {
			got = r.do(t, "POST", chat.path, chat.body, append([]string{"x-gateway-api-key", key}, header...)...)
			return got.status != http.StatusUnauthorized
		})
		r.ids[name] = fmt.Sprint(r.entry(t, got.wantOK(t))["id"])
	}
	send("direct", bootstrapKey, "x-gateway-provider", "@first")
	send("config", bootstrapKey, "x-gateway-config", "pc-routes")
	send("team", r.teamKey, "x-gateway-provider", "openai-compatible", "x-gateway-custom-host", p[0].url, "Authorization", "Bearer "+credential)
	return r
}

// named returns which requests a listing shows.
func (r *routes) named(t *testing.T, key, query string) string {
	t.Helper()
	listed := r.as(t, key, "GET", "/v1/logs?"+query, "").items(t, "id")
	var out []string
	for _, name := range []string{"config", "direct", "team"} {
		if slices.Contains(listed, r.ids[name]) {
			out = append(out, name)
		}
	}
	return strings.Join(out, " ")
}

// export drafts an export with a filter of some JSON and returns the reply.
func (r *routes) export(t *testing.T, key, workspace, filter string) response {
	t.Helper()
	now := time.Now().UTC()
	return r.as(t, key, "POST", "/v1/logs/exports", fmt.Sprintf(`{"workspace_id":%q,"requested_data":["id"],"filters":{"time_of_generation_min":%q,"time_of_generation_max":%q,%s}}`,
		workspace, now.Add(-time.Hour).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339), filter))
}

func TestFiltersOfTheLogFindWhatTheyName(t *testing.T) {
	r := launchRoutes(t)
	prove(t, "S-392 S-440", "names, ids and routes filter the log, the analytics and exports alike", func(t *testing.T) {
		for _, tt := range []struct{ query, analytics, want string }{
			{"workspace=" + r.slug, "workspace_slug=" + r.slug, "team"},
			{"workspace=" + r.team, "workspace_id=" + r.team, "team"},
			{"workspace=default", "workspace_id=default", "config direct"},
			{"provider=first", "virtual_keys=first", "direct"},
			{"provider=@groq", "virtual_keys=@groq", "config"},
			{"provider=@first", "provider=@first", "direct"},
			{"provider=first", "provider=first", "direct"},
			{"provider=openai-compatible", "provider=openai-compatible", "config direct team"},
			{"provider=groq", "provider=groq", ""}, // the id of a provider comes before a slug
			{"config=pc-routes", "configs=pc-routes", "config"},
			{"model=m-1", "model=m-1", "config direct team"},
			{"upstream_model=real-two", "upstream_model=real-two", "config"},
			{"upstream_model=m-1", "upstream_model=m-1", "direct team"},
			{"response_model=real-one-2026", "response_model=real-one-2026", "direct team"},
			{"response_model=real-two-2026", "response_model=real-one-2026,real-two-2026", "config"},
			{"target=config.targets[1]", "target=config.targets[1]", "config"},
			{"outcome=success", "outcome=success,error", "config direct team"},
			{"outcome=error", "outcome=error", ""},
		} {
			if got := r.named(t, bootstrapKey, tt.query); got != tt.want {
				t.Errorf("GET /v1/logs?%s shows %q, want %q", tt.query, got, tt.want)
			}
			n := float64(len(strings.Fields(tt.want)))
			if strings.Contains(tt.analytics, ",") {
				n = 3
			}
			total, _ := at(r.as(t, bootstrapKey, "GET", "/v1/analytics/graphs/requests?"+tt.analytics, "").wantOK(t).object(t), "summary", "total").(json.Number).Float64()
			if total != n {
				t.Errorf("GET /v1/analytics/graphs/requests?%s counts %v, want %v", tt.analytics, total, n)
			}
			name, value, _ := strings.Cut(tt.analytics, "=")
			if strings.HasPrefix(name, "workspace") {
				continue
			}
			n = 0 // an export is of one workspace
			for id := range strings.FieldsSeq(tt.want) {
				if id != "team" {
					n++
				}
			}
			if strings.Contains(value, ",") {
				n = 2
			}
			if made := r.export(t, bootstrapKey, "default", fmt.Sprintf("%q:%q", name, value)).wantOK(t).object(t); fmt.Sprint(made["total"]) != fmt.Sprint(n) {
				t.Errorf("an export with %s has %v rows, want %v", tt.analytics, made["total"], n)
			}
		}
	})
	prove(t, "S-391 S-392", "requests are grouped by what each group is called", func(t *testing.T) {
		keys := map[any]float64{}
		for _, id := range r.ids {
			keys[at(r.as(t, bootstrapKey, "GET", "/v1/logs/"+id, "").wantOK(t).object(t), "api_key", "id")]++
		}
		first, _ := r.root(t, "GET", "/v1/admin/workspaces/default", "")["id"].(string)
		for group, want := range map[string]map[any]float64{
			"ai_service":     {"openai-compatible": 3},
			"model":          {"m-1": 3},
			"status_code":    {200.0: 3},
			"api_key":        keys,
			"config":         {"pc-routes": 1, nil: 2},
			"workspace":      {first: 2, r.team: 1},
			"provider":       {"first": 1, "groq": 1, nil: 1},
			"prompt":         {nil: 3},
			"upstream_model": {"m-1": 2, "real-two": 1},
			"response_model": {"real-one-2026": 2, "real-two-2026": 1},
			"target":         {"config": 2, "config.targets[1]": 1},
			"outcome":        {"success": 3},
		} {
			for _, base := range []string{"/analytics/groups/", "/logs/groups/"} {
				got := map[any]float64{}
				for _, row := range r.groups(t, bootstrapKey, base+group) {
					got[row[group]], _ = row["requests"].(float64)
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("GET %s%s = %v, want %v", base, group, got, want)
				}
			}
		}
		e := r.as(t, bootstrapKey, "GET", "/v1/logs/"+r.ids["config"], "").wantOK(t).object(t)
		if e["model"] != "m-1" || e["upstream_model"] != "real-two" || e["response_model"] != "real-two-2026" {
			t.Errorf("the entry has %v, %v, %v", e["model"], e["upstream_model"], e["response_model"])
		}
	})
	prove(t, "S-392", "modelgate tail filters by name and route", func(t *testing.T) {
		for _, flags := range [][]string{{"--provider", "@groq"}, {"--upstream-model", "real-two"}, {"--response-model", "real-two-2026"}, {"--target", "config.targets[1]"}} {
			out, errText, code := command(t, append([]string{"tail", "--url", r.gateway.root, "--key", bootstrapKey, "--follow=false"}, flags...)...)
			if code != 0 || strings.Count(out, "\n") != 1 {
				t.Errorf("tail %v: exit code %d, %q %s; want one line", flags, code, out, errText)
			}
		}
	})
}

func TestFiltersThatMatchNothingAreRefused(t *testing.T) {
	r := launchRoutes(t)
	named := func(t *testing.T, response response, status int, words ...string) {
		t.Helper()
		message := fmt.Sprint(at(response.object(t), "error", "message"))
		for _, word := range words {
			if response.status != status || !strings.Contains(message, word) {
				t.Errorf("status %d: %s; want %d and %q", response.status, message, status, word)
			}
		}
	}
	prove(t, "S-392", "unknown workspaces and providers are refused by name", func(t *testing.T) {
		for _, path := range []string{
			"logs?workspace=", "logs?provider=", "logs/traces?workspace=", "logs/traces?provider=@", "logs/tail?workspace=", "logs/tail?provider=",
			"analytics/groups/model?workspace_id=", "logs/groups/model?workspace_slug=", "analytics/groups/model?provider=", "analytics/graphs/errors?virtual_keys=",
			"analytics/groups/model?ai_org_model=nowhere__gpt,", "analytics/graphs/feedbacks?workspace_id=", "feedback?workspace=", "logs/exports?workspace_id=",
		} {
			named(t, r.as(t, bootstrapKey, "GET", "/v1/"+path+"nowhere", ""), http.StatusNotFound, "nowhere")
		}
		for _, filter := range []string{`"workspace_slug":"nowhere"`, `"provider":"nowhere"`, `"virtual_keys":["first","nowhere"]`, `"ai_org_model":"nowhere__gpt"`} {
			workspace := "default"
			if strings.Contains(filter, "workspace") {
				workspace = ""
			}
			named(t, r.export(t, bootstrapKey, workspace, filter), http.StatusNotFound, "nowhere")
		}
	})
	prove(t, "S-392", "what belongs to another workspace is not found, as if it did not exist", func(t *testing.T) {
		for _, path := range []string{
			"logs?workspace=", "logs/traces?workspace=", "logs/tail?workspace=", "analytics/groups/model?workspace_id=", "analytics/graphs/cost?workspace_slug=",
			"analytics/graphs/feedbacks?workspace_id=", "feedback?workspace=", "logs/exports?workspace_id=",
		} {
			for _, other := range []string{r.slug, r.team} {
				there, absent := r.as(t, r.ownKey, "GET", "/v1/"+path+other, ""), r.as(t, r.ownKey, "GET", "/v1/"+path+"nowhere", "")
				named(t, there, http.StatusNotFound, other)
				if strings.ReplaceAll(string(there.body), other, "nowhere") != string(absent.body) {
					t.Errorf("GET %s%s: %s, and of one that does not exist %s", path, other, there.body, absent.body)
				}
			}
		}
		for _, path := range []string{"logs?provider=", "logs?provider=@", "analytics/graphs/cost?provider=", "analytics/graphs/cost?virtual_keys="} {
			named(t, r.as(t, r.teamKey, "GET", "/v1/"+path+"first", ""), http.StatusNotFound, "first") // a provider of the first workspace
		}
		named(t, r.export(t, r.ownKey, r.slug, `"trace_id":"x"`), http.StatusNotFound, r.slug)
		named(t, r.export(t, r.ownKey, "", `"workspace_slug":"`+r.slug+`"`), http.StatusNotFound, r.slug)
		if got := r.named(t, r.ownKey, "workspace=default"); got != "config direct" {
			t.Errorf("a key that names its own workspace is shown %q", got)
		}
	})
	prove(t, "S-392", "values that nothing can have are refused by the name of their filter", func(t *testing.T) {
		for _, query := range []string{
			"status=99", "status=0xx", "status=6000", "status=fine", "outcome=fine", "operation=chatt", "stream=maybe", "api_key=" + bootstrapKey,
			"model=", "provider=", "workspace=", "outcome=", "target=", "trace_id=", "config=", "metadata.team=" + strings.Repeat("x", 513),
		} {
			name, _, _ := strings.Cut(query, "=")
			for _, path := range []string{"logs", "logs/tail", "logs/traces"} {
				if path == "logs/traces" && strings.HasPrefix(name, "metadata") {
					continue // there it is an object
				}
				got := r.as(t, bootstrapKey, "GET", "/v1/"+path+"?"+query, "")
				named(t, got, http.StatusBadRequest, name)
				if strings.Contains(string(got.body), bootstrapKey) {
					t.Errorf("GET %s?%s shows the key: %s", path, name, got.body)
				}
			}
		}
		for _, query := range []string{
			"status_code=99", "status_code=200,1000", "outcome=fine", "api_key_ids=" + bootstrapKey, "model=", "provider=", "workspace_id=", "cost_min=2&cost_max=1",
			"total_units_min=2&total_units_max=1", "metadata=" + url.QueryEscape(`{"a":1}`),
		} {
			name, _, _ := strings.Cut(query, "=")
			name = strings.TrimSuffix(name, "_min")
			for _, path := range []string{"analytics/groups/model", "logs/groups/model", "analytics/graphs/errors/stacks", "analytics/summary/cache"} {
				named(t, r.as(t, bootstrapKey, "GET", "/v1/"+path+"?"+query, ""), http.StatusBadRequest, name)
			}
		}
		for _, filter := range []string{`"status_code":[99]`, `"outcome":"fine"`, `"api_key_ids":["` + bootstrapKey + `"]`, `"model":""`, `"provider":[]`} {
			name, _, _ := strings.Cut(strings.Trim(filter, `"`), `"`)
			named(t, r.export(t, bootstrapKey, "default", filter), http.StatusBadRequest, name)
		}
	})
}
