package controlplane_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/gatewaytest"
)

// responded is a posted exchange that has everything.
const responded = `{
	"request": {
		"url": "https://key:word@api.openai.com/v1/chat/completions?api-key=hidden",
		"method": "post", "headers": {"authorization": "Bearer sk-hidden", "x-n": 1},
		"body": {"model": "gpt-4o", "stream": false, "messages": [{"role": "user", "content": "hidden"}]}
	},
	"response": {
		"status": 200, "headers": {"set-cookie": "hidden"}, "response_time": 1500.5,
		"body": {"model": "gpt-4o-2024", "choices": [{"finish_reason": "stop"}], "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}}
	},
	"metadata": {"trace_id": "t-1", "span_id": "s-1", "parent_span_id": "s-0", "span_name": "ask", "team": "search"}
}`

// bare is one that has what it needs.
const bare = `{"request":{"url":"http://models.internal","body":null},"response":{"body":"text"}}`

func TestPostedEntriesAreInTheLog(t *testing.T) {
	g := gatewaytest.New(t, gatewaytest.Options{})
	res := g.Post("/logs", "["+responded+","+bare+"]")
	ids, _ := res.JSON(t)["ids"].([]any)
	if res.Status != 200 || res.JSON(t)["status"] != "success" || len(ids) != 2 {
		t.Fatalf("POST /logs: %d %s", res.Status, res.Body)
	}
	one := g.Get("/logs/" + ids[0].(string))
	if strings.Contains(string(one.Body), "hidden") || strings.Contains(string(one.Body), "word@") {
		t.Errorf("what was posted in confidence is in the log: %s", one.Body)
	}
	got := one.JSON(t)
	for name, want := range map[string]any{
		"operation": "logs.insert", "method": "POST", "path": "/v1/chat/completions", "provider": "openai", "model": "gpt-4o", "response_model": "gpt-4o-2024",
		"status": 200.0, "trace_id": "t-1", "span_id": "s-1", "parent_span_id": "s-0", "span_name": "ask", "finish_reason": "stop",
		"metadata": map[string]any{"team": "search"}, "cost": nil, "attempts": []any{}, "logging": "metadata", "workspace": store.DefaultWorkspace,
	} {
		if diff := cmp.Diff(want, got[name]); diff != "" {
			t.Errorf("%s of the entry (-want +got):\n%s", name, diff)
		}
	}
	if n, _ := json.Marshal(got["usage"]); !strings.Contains(string(n), `"total_tokens":9`) {
		t.Errorf("usage = %s", n)
	}
	if timing, _ := got["timing"].(map[string]any); timing["total_ms"] != 1500.5 || timing["upstream_ms"] != 1500.5 {
		t.Errorf("timing = %v", timing)
	}
	second := g.Get("/logs/" + ids[1].(string)).JSON(t)
	if second["trace_id"] != ids[1] || second["path"] != "/" || second["response_bytes"] != 4.0 || second["request_bytes"] != 0.0 || second["provider"] != nil {
		t.Errorf("a bare exchange = %v", second)
	}
	failed, _ := g.Post("/logs", strings.Replace(bare, `"text"`, `"text","status":503`, 1)).JSON(t)["ids"].([]any)
	if third := string(g.Get("/logs/" + failed[0].(string)).Body); !strings.Contains(third, `"error":{"source":"provider","code":"provider_error"`) {
		t.Errorf("an exchange that failed = %s", third)
	}
	streamed, _ := g.Post("/logs", strings.Replace(bare, `"body":null`, `"body":{"model":"m","stream":true}`, 1)).JSON(t)["ids"].([]any)
	if e := g.Get("/logs/" + streamed[0].(string)).JSON(t); e["model"] != "m" || e["stream"] != true {
		t.Errorf("a request for a stream = %v", e)
	}
	if list := string(g.Get("/logs?operation=logs.insert&trace_id=t-1").Body); !strings.Contains(list, ids[0].(string)) || strings.Contains(list, ids[1].(string)) {
		t.Errorf("the log of the trace = %.300s", list)
	}
	if groups := string(g.Get("/analytics/groups/ai_service").Body); !strings.Contains(groups, `"ai_service":"openai"`) {
		t.Errorf("groups = %s", groups)
	}
}

func TestPostingToTheLogIsAllOrNothing(t *testing.T) {
	g := gatewaytest.New(t, gatewaytest.Options{})
	bad := func(part string) string { return strings.Replace(bare, `"body":null`, part, 1) }
	for _, tt := range []struct{ name, body, param string }{
		{"no object", `"x"`, "body"},
		{"null", `null`, "body"},
		{"an empty array", `[]`, "body"},
		{"too many", "[" + strings.Repeat("{},", 1000) + "{}]", "body"},
		{"an element that is none", `[1]`, "[0]"},
		{"nothing in it", `{}`, "request"},
		{"no address", strings.Replace(bare, `"url":"http://models.internal",`, "", 1), "request.url"},
		{"an address that is none", strings.Replace(bare, "http://models.internal", "http://[", 1), "request.url"},
		{"an address that is long", strings.Replace(bare, "internal", strings.Repeat("i", 5000), 1), "request.url"},
		{"an address that is opaque", strings.Replace(bare, "http://models.internal", "mailto:x", 1), "request.url"},
		{"no body", bad(`"method":"GET"`), "request.body"},
		{"no body of the response", strings.Replace(bare, `"body":"text"`, "", 1), "response.body"},
		{"no response", `{"request":{"url":"http://a.example","body":1}}`, "response"},
		{"a method that is none", bad(`"body":1,"method":"a b"`), "request.method"},
		{"headers that are none", bad(`"body":1,"headers":[]`), "request.headers"},
		{"an unknown member", bad(`"body":1,"key":"sk"`), "request.key"},
		{"an unknown member at the top", bare[:len(bare)-1] + `,"organisation":"x"}`, "organisation"},
		{"a status as text", strings.Replace(bare, `"text"`, `"text","status":"200"`, 1), "response.status"},
		{"a status that is none", strings.Replace(bare, `"text"`, `"text","status":20`, 1), "response.status"},
		{"part of a status", strings.Replace(bare, `"text"`, `"text","status":200.5`, 1), "response.status"},
		{"a time before it began", strings.Replace(bare, `"text"`, `"text","response_time":-1`, 1), "response.response_time"},
		{"more than a day", strings.Replace(bare, `"text"`, `"text","response_time":1e9`, 1), "response.response_time"},
		{"metadata that is a list", bare[:len(bare)-1] + `,"metadata":[]}`, "metadata"},
		{"metadata with a number", bare[:len(bare)-1] + `,"metadata":{"n":1}}`, "metadata.n"},
		{"metadata that is deep", bare[:len(bare)-1] + `,"metadata":{"n":{}}}`, "metadata.n"},
		{"metadata that is long", bare[:len(bare)-1] + `,"metadata":{"n":"` + strings.Repeat("é", 513) + `"}}`, "metadata.n"},
		{"a trace id in letters of others", bare[:len(bare)-1] + `,"metadata":{"trace_id":"é"}}`, "metadata.trace_id"},
		{"a trace id that is none", bare[:len(bare)-1] + `,"metadata":{"trace_id":7}}`, "metadata.trace_id"},
		{"a NUL", bare[:len(bare)-1] + `,"metadata":{"n":"\u0000"}}`, "metadata.n"},
		{"the second of two", "[" + bare + `,{"request":{"url":"http://a.example","body":1},"response":1}]`, "[1].response"},
		{"deep in the second", "[" + bare + "," + bare[:len(bare)-1] + `,"metadata":{"n":1}}]`, "[1].metadata.n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := g.Post("/logs", tt.body)
			if res.Status != 400 || !strings.Contains(string(res.Body), fmt.Sprintf(`"param":%q`, tt.param)) || !strings.Contains(string(res.Body), "AB01") {
				t.Errorf("%.200s: %d %.400s, want 400 for %s", tt.body, res.Status, res.Body, tt.param)
			}
		})
	}
	if res := g.Post("/logs", strings.Replace(bare, `"text"`, `"`+strings.Repeat("x", 20<<20)+`"`, 1)); res.Status != 413 {
		t.Errorf("more than 20 MB: %d %.200s", res.Status, res.Body)
	}
	if res := g.Post("/logs", strings.Replace(bare, `"text"`, `"`+strings.Repeat("x", 10<<20)+`"`, 1)); res.Status != 200 {
		t.Errorf("10 MB: %d %.200s", res.Status, res.Body)
	}
	if list := g.Get("/logs").JSON(t)["data"].([]any); len(list) != 1 {
		t.Errorf("the log has %d entries, want the one that was taken", len(list))
	}
}

func TestPostingToTheLogNeedsItsScopeAndAWorkspace(t *testing.T) {
	key := func(name, scopes string) string {
		return fmt.Sprintf("  - {name: %s, sha256: %s, scopes: [%s]}\n", name, access.HashKey("mg-key-of-a-test-"+name), scopes)
	}
	g := gatewaytest.New(t, gatewaytest.Options{Settings: "keys:\n" + key("writer", "logs.write") + key("models", "completions.write")})
	made := g.Post("/api-keys/organisation/service", `{"name":"o","scopes":["logs.list","logs.view"]}`).JSON(t)
	organisation, _ := made["key"].(string)
	for _, tt := range []struct {
		key    string
		status int
	}{{"mg-key-of-a-test-writer", 200}, {"mg-key-of-a-test-models", 403}, {organisation, 403}, {"mg-key-of-a-test-nobody", 401}} {
		res := g.Post("/logs", bare, "x-gateway-api-key", tt.key)
		for res.Status == 401 && tt.key == organisation { // taken within a second
			res = g.Post("/logs", bare, "x-gateway-api-key", tt.key)
		}
		if res.Status != tt.status {
			t.Errorf("with %.10s: %d %s, want %d", tt.key, res.Status, res.Body, tt.status)
		}
	}
}

func TestAsMuchIsKeptOfWhatIsPostedAsOfOtherExchanges(t *testing.T) {
	const body = `{"request":{"url":"http://a.example/p","headers":{"content-type":"text/x-prompt; charset=utf-8"},"body":"ask ann@example.com"},
		"response":{"headers":{"authorization":"Bearer hidden"},"body":{"long":"0123456789 0123456789","error":{"message":"no ann@example.com"}}},"metadata":{"team":"a"}}`
	for _, tt := range []struct {
		level, debug string
		has, lacks   []string
	}{
		{"full", "", []string{`"logging":"full"`, `"content_type":"text/x-prompt","body":"ask [redacted:email]"`, `"size":19`, `"truncated":true`, `"team":"a"`}, []string{"ann@", "hidden"}},
		{"full", "false", []string{`"logging":"metadata"`, `"request":null`, `"team":"a"`}, []string{"ask", "ann@"}},
		{"metadata", "", []string{`"logging":"metadata"`, `"request":null`, `"path":"/p"`, `"team":"a"`}, []string{"ask", "ann@"}},
		{"none", "", []string{`"logging":"none"`, `"path":null`, `"metadata":{}`}, []string{"ask", "ann@", `"team"`}},
	} {
		g := gatewaytest.New(t, gatewaytest.Options{Settings: "logs: {level: " + tt.level + ", body_size: 40, redact: {patterns: [email]}}\n"})
		var header []string
		if tt.debug != "" {
			header = []string{"x-gateway-debug", tt.debug}
		}
		ids, _ := g.Post("/logs", body, header...).JSON(t)["ids"].([]any)
		if len(ids) != 1 {
			t.Fatalf("%s: nothing was recorded", tt.level)
		}
		got := string(g.Get("/logs/" + ids[0].(string)).Body)
		for _, part := range tt.has {
			if !strings.Contains(got, part) {
				t.Errorf("%s %s: %s, want %s", tt.level, tt.debug, got, part)
			}
		}
		for _, part := range tt.lacks {
			if strings.Contains(got, part) {
				t.Errorf("%s %s: %s, want it without %s", tt.level, tt.debug, got, part)
			}
		}
	}
}
