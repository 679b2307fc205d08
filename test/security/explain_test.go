package security

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// question is a request that is sent and explained.
type question struct {
	name, method, path, body string
	headers                  map[string]any // a string, or []string for one that is sent twice
}

// verdict is what a client receives: the status, and of a refusal its code and
// parameter.
type verdict struct {
	status      int
	code, param string
}

// errorOf returns code and parameter of an error body in any dialect, as far as
// it has them.
func errorOf(body []byte) (code, param string) {
	var v struct {
		Error map[string]any `json:"error"`
		Code  string         `json:"code"`
	}
	json.Unmarshal(body, &v)
	if v.Error == nil {
		return v.Code, ""
	}
	code, param = fmt.Sprint(v.Error["code"]), fmt.Sprint(v.Error["param"])
	return code, strings.Replace(param, "<nil>", "", 1)
}

func questions(tree string) []question {
	at := func(name, body string, headers map[string]any) question {
		return question{name, "POST", "/v1/chat/completions", body, headers}
	}
	config := func(name, c string) question { return at(name, chatBody, map[string]any{"x-gateway-config": c}) }
	stored := map[string]any{"x-gateway-provider": "@stored"}
	with := func(more ...any) map[string]any {
		h := map[string]any{"x-gateway-provider": "@stored"}
		for i := 0; i < len(more); i += 2 {
			h[more[i].(string)] = more[i+1]
		}
		return h
	}
	return []question{
		at("a request that is fine", chatBody, stored),
		at("no provider", chatBody, nil),
		at("an unknown provider", chatBody, map[string]any{"x-gateway-provider": "nobody"}),
		at("an unknown slug", chatBody, map[string]any{"x-gateway-provider": "@nobody"}),
		at("no credential", chatBody, map[string]any{"x-gateway-provider": "openai"}),
		at("a provider's credential twice", chatBody, map[string]any{"x-gateway-provider": "openai", "authorization": []string{"Bearer a", "Bearer b"}}),
		at("a provider twice", chatBody, map[string]any{"x-gateway-provider": []string{"@stored", "@stored"}}),
		at("the content type twice", chatBody, with("Content-Type", []string{"application/json", "application/json"})),
		at("another content type", chatBody, with("Content-Type", "text/csv")),
		at("a content encoding", chatBody, with("content-encoding", "br")),
		at("a method override", chatBody, with("x-http-method-override", "DELETE")),
		at("a custom host for a stored credential", chatBody, with("x-gateway-custom-host", "https://example.com/v1")),
		at("a private custom host", chatBody, map[string]any{"x-gateway-provider": "openai", "authorization": "Bearer k", "x-gateway-custom-host": "http://169.254.169.254/v1"}),
		at("metadata that is not an object", chatBody, with("x-gateway-metadata", "x")),
		at("a timeout that is no number", chatBody, with("x-gateway-request-timeout", "soon")),
		at("strictness that is neither", chatBody, with("x-gateway-strict-vendora-compliance", "maybe")),
		at("a forwarded gateway header", chatBody, with("x-gateway-forward-headers", "x-gateway-api-key")),
		at("an unknown gateway key", chatBody, with("x-gateway-api-key", "mg-unknown")),
		at("a gateway key twice", chatBody, with("x-gateway-api-key", []string{"mg-a", "mg-b"})),
		at("a body that is no JSON", `{"model":`, stored),
		at("a body with a member twice", `{"model":"a","model":"b"}`, stored),
		at("no model", `{"messages":[{"role":"user","content":"hi"}]}`, stored),
		at("no messages", `{"model":"a"}`, stored),
		at("no body", ``, stored),
		at("a model of the wrong type", `{"model":1,"messages":[{"role":"user","content":"hi"}]}`, stored),
		at("a slug in the model", strings.Replace(chatBody, "gpt-4o", "@stored/gpt-4o", 1), nil),
		at("an unknown slug in the model", strings.Replace(chatBody, "gpt-4o", "@nobody/gpt-4o", 1), nil),
		config("a config", `{"provider":"@stored"}`),
		config("a tree", `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@stored"},{"provider":"@stored"}]}`),
		config("an invalid config", `{"strategy":{"mode":"never"},"targets":[]}`),
		config("a config that is no JSON", `{"strategy":`),
		config("an unknown saved config", "pc-none"),
		config("a config with an unknown slug", `{"provider":"@nobody"}`),
		config("the fixed config", tree),
		config("a check that may deny", `{"provider":"@stored","input_guardrails":[{"default.contains":{"operator":"none","words":["x"]},"deny":true}]}`),
		{"another path", "GET", "/v1/files", "", stored},
		{"passed through", "POST", "/v1/other", `{"a":1}`, stored},
		{"an encoded path", "POST", "/v1/%63hat/completions", chatBody, stored},
		{"a dot segment", "POST", "/v1/../other", chatBody, stored},
		{"an empty segment", "POST", "/v1//chat/completions", chatBody, stored},
		{"another spelling of a route", "POST", "/v1/chat%2Fcompletions", chatBody, stored},
		{"a method that is not offered", "PATCH", "/v1/things", `{}`, stored},
		{"a path without a route", "GET", "/v1beta/nothing", "", stored},
		{"messages", "POST", "/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, stored},
		{"messages without max_tokens", "POST", "/v1/messages", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, stored},
		{"gemini", "POST", "/v1beta/models/m:generateContent", `{"contents":[{"parts":[{"text":"hi"}]}]}`, stored},
		{"converse without a provider", "POST", "/model/m/converse", `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`, nil},
		{"the list of models", "GET", "/v1/models", "", nil},
		{"a form", "POST", "/v1/audio/transcriptions", field("model", "m") + field("file", "f") + "--x--\r\n", with("Content-Type", formKind)},
		{"a form that is JSON", "POST", "/v1/audio/transcriptions", `{"model":"m"}`, stored},
		{"a saved prompt that is not there", "POST", "/v1/prompts/none/completions", `{}`, nil},
	}
}

// TestExplainRefusesExactlyWhatIsRefused sends each request twice with keys in
// every state: to be served, and to be explained.
func TestExplainRefusesExactlyWhatIsRefused(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	g := launch(t, options{
		settings: "version: 1\nproviders:\n  - {slug: stored, provider: openai, api_key: \"${STORED_KEY}\", custom_host: \"" + p.url + "\"}\n",
		env:      []string{"STORED_KEY=" + storedKey},
	})
	fixed := g.create(t, rootKey, "/v1/configs", `{"name":"fixed","workspace_id":"default","config":{"provider":"@stored"}}`, "data.slug")
	scopes := []string{"completions.write", "models.list"}
	keys := map[string]string{
		"an ordinary key":       g.key(t, rootKey, "default", scopes, ""),
		"every scope":           rootKey,
		"a key of fewer scopes": g.key(t, rootKey, "default", []string{"models.list"}, ""),
		"a fixed config":        g.key(t, rootKey, "default", scopes, fmt.Sprintf(`,"defaults":{"config_id":%q,"allow_config_override":false}`, fixed)),
		"a budget used up":      g.key(t, rootKey, "default", scopes, `,"usage_limits":{"credit_limit":100,"type":"tokens"}`),
		"an unknown key":        "mg-nobody",
	}
	ended := g.mint(t, rootKey, words(scopes), "")
	g.expire(t, ended.id)
	keys["an expired key"] = ended.secret
	spent := keys["a budget used up"]
	waittest.Until(t, "the budget is used up", func() bool {
		return g.do(t, "POST", "/v1/chat/completions", chatBody, stored(spent)...).status == http.StatusPreconditionFailed
	})
	waittest.Until(t, "the key has expired", func() bool {
		return g.as(t, keys["an expired key"], "GET", "/v1/models", "").status == http.StatusUnauthorized
	})
	mayExplain := map[string]bool{"an ordinary key": true, "a fixed config": true, "a budget used up": true}
	for state, key := range keys {
		for _, q := range questions(fixed) {
			attack(t, "escalation", "explain, "+state+": "+q.name, func(t *testing.T) {
				p.reset()
				real := g.real(t, key, q)
				reached := len(p.seen()) > 0
				p.reset()
				if got := g.explain(t, rootKey, key, q); got != real {
					t.Errorf("explained as %+v, and is %+v (the provider was asked: %t)", got, real, reached)
				}
				if mayExplain[state] {
					if got := g.explain(t, key, "", q); got != real {
						t.Errorf("explained to its own key as %+v, and is %+v", got, real)
					}
				}
				if len(p.seen()) != 0 {
					t.Error("explaining asked the provider")
				}
			})
		}
	}
	attack(t, "escalation", "explain shows no gateway key", func(t *testing.T) {
		key := keys["an ordinary key"]
		got := g.as(t, key, "POST", "/v1/explain", `{"request":{"path":"/v1/other","headers":{"x-gateway-provider":"@stored"},"body":{"a":1}}}`).ok(t)
		if strings.Contains(string(got.body), key) || strings.Contains(string(got.body), storedKey) || !strings.Contains(string(got.body), `"attempt":{`) {
			t.Errorf("the explanation is %s", got.body)
		}
	})
	for _, path := range []string{"/v1/logs", "/v1/api-keys", "/health", "/v1/%6cogs"} {
		attack(t, "escalation", "explain of "+path, func(t *testing.T) {
			g.as(t, rootKey, "POST", "/v1/explain", fmt.Sprintf(`{"request":{"method":"GET","path":%q}}`, path)).refused(t, http.StatusBadRequest, "not_a_model_route", "request.path")
		})
	}
}

// real sends a request as it is.
func (g *gateway) real(t *testing.T, key string, q question) verdict {
	t.Helper()
	var header []string
	if _, own := q.headers["x-gateway-api-key"]; !own && key != "" {
		header = append(header, "x-gateway-api-key", key)
	}
	for name, value := range q.headers {
		if values, many := value.([]string); many {
			for _, v := range values {
				header = append(header, name, v)
			}
			continue
		}
		header = append(header, name, value.(string))
	}
	got := g.do(t, q.method, q.path, q.body, header...)
	if got.status == http.StatusOK {
		return verdict{status: got.status}
	}
	code, param := errorOf(got.body)
	return verdict{got.status, code, param}
}

// explain asks as the holder of key what would happen to a request with the
// gateway key sent, empty for key's own.
func (g *gateway) explain(t *testing.T, key, sent string, q question) verdict {
	t.Helper()
	headers := map[string]any{}
	if sent != "" {
		headers["x-gateway-api-key"] = sent
	}
	maps.Copy(headers, q.headers)
	body, err := json.Marshal(map[string]any{"request": map[string]any{"method": q.method, "path": q.path, "headers": headers, "body": q.body}})
	if err != nil {
		t.Fatal(err)
	}
	got := g.as(t, key, "POST", "/v1/explain", string(body)).ok(t)
	var v struct {
		Status int             `json:"status"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(got.body, &v); err != nil {
		t.Fatal(err)
	}
	if v.Status == http.StatusOK {
		return verdict{status: v.Status}
	}
	code, param := errorOf(v.Error)
	return verdict{v.Status, code, param}
}
