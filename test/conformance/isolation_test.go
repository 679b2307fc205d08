package conformance

import (
	"bufio"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

// sharedTrace is a trace with requests of several callers.
const sharedTrace = "shared-trace"

// reader reads the records of requests in every way there is.
type reader struct {
	*people
	name, token string
	own, other  string // ids of requests in the shared trace: one that it may see, one that it may not
	sees        int    // how many requests of the shared trace it may see
}

// watch subscribes to the live log and returns a function that waits for the next entry and
// returns its text.
func (r *reader) watch(t *testing.T) (next func() string) {
	t.Helper()
	req := r.request(t, "GET", "/v1/logs/tail", nil, "x-gateway-api-key", r.token)
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	lines := bufio.NewReader(res.Body)
	line := func() string {
		text, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the live log of the %s ended with status %d: %v", r.name, res.StatusCode, err)
		}
		return text
	}
	for !strings.HasPrefix(line(), ": watching") {
	}
	return func() string {
		for {
			if data, ok := strings.CutPrefix(line(), "data: "); ok {
				return data
			}
		}
	}
}

// checkTraces checks the list of traces and the shared trace.
func (r *reader) checkTraces(t *testing.T) {
	t.Helper()
	wantItems(t, r.as(t, r.token, "GET", "/v1/logs/traces?trace_id="+sharedTrace, "").items(t, "spans"), fmt.Sprint(r.sees))
	tree := r.as(t, r.token, "GET", "/v1/logs/traces/"+sharedTrace, "").wantOK(t)
	if spans := fmt.Sprint(tree.object(t)["spans"]); spans != fmt.Sprint(r.sees) || !strings.Contains(string(tree.body), r.own) || strings.Contains(string(tree.body), r.other) {
		t.Errorf("the %s reads a trace with %s spans, want %d: %.900s", r.name, spans, r.sees, tree.body)
	}
}

// exported returns the file of an export of the shared trace.
func (r *reader) exported(t *testing.T) string {
	t.Helper()
	now := time.Now().UTC()
	body := fmt.Sprintf(`{"workspace_id":"default","requested_data":["id"],"filters":{"time_of_generation_min":%q,"time_of_generation_max":%q,"trace_id":%q}}`,
		now.Add(-time.Hour).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339), sharedTrace)
	path := fmt.Sprintf("/v1/logs/exports/%s", r.as(t, r.token, "POST", "/v1/logs/exports", body).wantOK(t).object(t)["id"])
	r.as(t, r.token, "POST", path+"/start", "").wantOK(t)
	waittest.Until(t, "the export is made", func() bool { return r.as(t, r.token, "GET", path, "").wantOK(t).object(t)["status"] == "success" })
	link := fmt.Sprint(r.as(t, r.token, "GET", path+"/download", "").wantOK(t).object(t)["signed_url"])
	return string(r.do(t, "GET", strings.TrimPrefix(link, r.gateway.root), "").wantOK(t).body)
}

// checkExport checks that an export holds what may be seen.
func (r *reader) checkExport(t *testing.T) {
	t.Helper()
	file := r.exported(t)
	if n := strings.Count(file, "\n"); n != r.sees || !strings.Contains(file, r.own) || strings.Contains(file, r.other) {
		t.Errorf("the %s exports %d requests, want %d: %.600s", r.name, n, r.sees, file)
	}
}

// checkLive checks that the live log leaves out a request of a key that may not be seen.
func (r *reader) checkLive(t *testing.T, ownKey, otherKey string) {
	t.Helper()
	next := r.watch(t)
	r.ask(t, otherKey)
	if own, got := r.ask(t, ownKey), next(); !strings.Contains(got, own) {
		t.Errorf("the live log tells the %s first of %.400s, want %s", r.name, got, own)
	}
}

// TestOrganisationsShareNoRecords has two organisations use the same trace id, and each
// read it.
func TestOrganisationsShareNoRecords(t *testing.T) {
	h := populate(t)
	owner := h.claim(t)
	const body = `{"name":"k","workspace_id":"default","scopes":["completions.write","logs.list","logs.view","logs.export","analytics.view"]}`
	ours := h.made(t, "/v1/api-keys/workspace/service", body)
	theirs, _ := h.as(t, owner, "POST", "/v1/api-keys/workspace/service", body).wantOK(t).object(t)["key"].(string)
	our, their := h.ask(t, ours, "x-gateway-trace-id", sharedTrace), h.ask(t, theirs, "x-gateway-trace-id", sharedTrace)
	readers := []*reader{
		{h, "first key", ours, our, their, 1}, {h, "first admin", h.sessions["admin"], our, their, 1}, {h, "installation's key", bootstrapKey, our, their, 1},
		{h, "second key", theirs, their, our, 1}, {h, "second owner", owner, their, our, 1},
	}
	prove(t, "S-423", "in traces", func(t *testing.T) {
		for _, r := range readers {
			r.checkTraces(t)
		}
	})
	prove(t, "S-423", "in sums", func(t *testing.T) {
		for _, r := range readers {
			want := 6.0 // each of the people, the service and our key
			if r.own == their {
				want = 1
			}
			for _, path := range []string{"/analytics/groups/api_key", "/logs/groups/api_key", "/analytics/groups/model?total_units_min=1"} {
				total := 0.0
				for _, row := range h.groups(t, r.token, path) {
					n, _ := row["requests"].(float64)
					total += n
				}
				if total != want {
					t.Errorf("GET %s of the %s sums %v requests, want %v", path, r.name, total, want)
				}
			}
			graph := h.as(t, r.token, "GET", "/v1/analytics/graphs/requests", "").wantOK(t).object(t)
			if n := fmt.Sprint(at(graph, "summary", "total")); n != fmt.Sprint(want) {
				t.Errorf("the graph of the %s has %s requests, want %v", r.name, n, want)
			}
		}
	})
	prove(t, "S-423", "in feedback", func(t *testing.T) {
		id := fmt.Sprint(at(h.as(t, ours, "POST", "/v1/feedback", `{"trace_id":"`+sharedTrace+`","value":7}`).wantOK(t).object(t), "feedback_ids", 0))
		for _, r := range readers {
			want := 1
			if r.own == their {
				want = 0
			}
			if got := h.as(t, r.token, "GET", "/v1/feedback", "").items(t, "id"); len(got) != want {
				t.Errorf("the %s is shown %d pieces of feedback, want %d", r.name, len(got), want)
			}
			if n := fmt.Sprint(at(h.as(t, r.token, "GET", "/v1/analytics/graphs/feedbacks", "").wantOK(t).object(t), "summary", "total")); n != fmt.Sprint(want) {
				t.Errorf("the graph of the %s has %s pieces of feedback, want %d", r.name, n, want)
			}
			tree := h.as(t, r.token, "GET", "/v1/logs/traces/"+sharedTrace, "").wantOK(t).object(t)
			if list, _ := tree["feedback"].([]any); len(list) != want {
				t.Errorf("the trace of the %s has %d pieces of feedback, want %d", r.name, len(list), want)
			}
		}
		if got := h.as(t, theirs, "PUT", "/v1/feedback/"+id, `{"value":-7}`); got.status != http.StatusNotFound {
			t.Errorf("their key changes our feedback with %d", got.status)
		}
	})
	prove(t, "S-423", "in exports", func(t *testing.T) {
		for _, r := range readers {
			r.checkExport(t)
		}
		id := h.as(t, ours, "GET", "/v1/logs/exports", "").items(t, "id")[0]
		wide, _ := h.as(t, owner, "POST", "/v1/api-keys/organisation/service", `{"name":"wide","scopes":["logs.export"]}`).wantOK(t).object(t)["key"].(string)
		h.eventually(t, wide)
		if got := h.as(t, wide, "GET", "/v1/logs/exports", "").items(t, "id"); slices.Contains(got, id) {
			t.Errorf("the other organisation lists our export among %q", got)
		}
		their := h.as(t, theirs, "GET", "/v1/logs/exports", "").items(t, "id")[0]
		if got := h.as(t, bootstrapKey, "GET", "/v1/logs/exports", "").items(t, "id"); slices.Contains(got, their) || !slices.Contains(got, id) {
			t.Errorf("our installation's key lists the exports %q, want ours", got)
		}
		for _, path := range []string{"", "/download"} {
			for _, token := range []string{theirs, owner, wide} {
				if got := h.as(t, token, "GET", "/v1/logs/exports/"+id+path, ""); got.status != http.StatusNotFound {
					t.Errorf("the other organisation reads our export%s with %d", path, got.status)
				}
			}
		}
	})
	prove(t, "S-423", "in the live log", func(t *testing.T) {
		for _, r := range readers {
			own, other := ours, theirs
			if r.own == their {
				own, other = theirs, ours
			}
			r.checkLive(t, own, other)
		}
	})
}

// TestEveryReaderOfRecordsKeepsToOwnKeys has people who may see the records of their own
// keys only read a trace that others use too.
func TestEveryReaderOfRecordsKeepsToOwnKeys(t *testing.T) {
	h := populate(t)
	shared := map[string]string{}
	for _, name := range []string{"mate", "member", "manager"} {
		shared[name] = h.ask(t, h.keys[name], "x-gateway-trace-id", sharedTrace)
	}
	for _, tt := range []struct{ of, name, other string }{{"S-460 S-528", "member", "manager"}, {"S-461 S-528", "manager", "member"}} {
		r := &reader{h, tt.name, h.sessions[tt.name], shared[tt.name], shared["mate"], 1}
		prove(t, tt.of, "the "+tt.name+" in traces, exports and the live log", func(t *testing.T) {
			h.set(t, fmt.Sprintf(`"%ssViewAllData":false`, tt.name), "")
			r.checkTraces(t)
			r.checkExport(t)
			r.checkLive(t, h.keys[tt.name], h.keys["mate"])
			for _, name := range []string{"mate", tt.name} {
				h.ask(t, h.keys[name], "x-gateway-trace-id", "trace-of-"+name)
				h.as(t, h.keys[name], "POST", "/v1/feedback", `{"trace_id":"trace-of-`+name+`","value":5}`).wantOK(t)
			}
			wantItems(t, h.as(t, r.token, "GET", "/v1/feedback", "").items(t, "trace_id"), "trace-of-"+tt.name)
			if got := h.as(t, r.token, "GET", "/v1/explain/"+r.other, ""); got.status != http.StatusNotFound {
				t.Errorf("the %s has a request of another explained with status %d", tt.name, got.status)
			}
		})
		prove(t, tt.of, "while the "+tt.other+" sees all", func(t *testing.T) {
			all := &reader{h, tt.other, h.sessions[tt.other], shared["mate"], "nothing", 3}
			all.checkTraces(t)
			all.checkExport(t)
		})
	}
}

// TestWorkspacesUseNothingOfEachOther has a key of another workspace name a provider and a
// prompt.
func TestWorkspacesUseNothingOfEachOther(t *testing.T) {
	h := populate(t)
	h.root(t, "POST", "/v1/integrations", `{"name":"I","slug":"some","ai_provider_id":"openai-compatible","key":"`+storedKey+`","workspace_id":"default","configurations":{"custom_host":"`+h.provider.url+`"}}`)
	prompt := fmt.Sprint(h.root(t, "POST", "/v1/prompts", `{"name":"P","workspace_id":"default","string":"[{\"role\":\"user\",\"content\":\"hi\"}]","parameters":{},"model":"m","virtual_key":"some"}`)["slug"])
	other := fmt.Sprint(h.root(t, "POST", "/v1/workspaces", `{"name":"Other"}`)["id"])
	away := h.made(t, "/v1/api-keys/workspace/service", `{"name":"away","workspace_id":"`+other+`","scopes":["completions.write"]}`)
	h.ask(t, away) // the gateway knows the key
	chat := modelRoutes[0]
	for _, tt := range []struct {
		of, name, path, body, code string
		header                     []string
	}{
		{"S-428", "a provider in x-gateway-provider", chat.path, chat.body, "unknown_slug", []string{"x-gateway-provider", "@some"}},
		{"S-428", "a provider in x-gateway-virtual-key", chat.path, chat.body, "unknown_slug", []string{"x-gateway-virtual-key", "some"}},
		{"S-428", "a provider in the model", chat.path, strings.Replace(chat.body, "m-1", "@some/m-1", 1), "unknown_slug", nil},
		{"S-428", "a provider in a config", chat.path, chat.body, "unknown_slug", []string{"x-gateway-config", `{"provider":"@some"}`}},
		{"S-335", "a prompt", "/v1/prompts/" + prompt + "/completions", `{}`, "unknown_prompt", nil},
	} {
		prove(t, tt.of, tt.name+" is of its workspace", func(t *testing.T) {
			ask := func(key string) response {
				return h.do(t, "POST", tt.path, tt.body, append([]string{"x-gateway-api-key", key}, tt.header...)...)
			}
			waittest.Until(t, "its own workspace uses it", func() bool { return ask(h.keys["service"]).status == http.StatusOK })
			h.provider.forget()
			got := ask(away)
			if e, _ := got.object(t)["error"].(map[string]any); got.status < 400 || got.status > 404 || e["code"] != tt.code {
				t.Errorf("another workspace gets status %d, want a refusal with %s: %.300s", got.status, tt.code, got.body)
			}
			h.provider.wantNoRequests(t)
		})
	}
}
