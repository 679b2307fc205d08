package dataplane_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// listener is a provider that keeps the bodies it was sent.
type listener struct {
	mu     sync.Mutex
	bodies []map[string]any // guarded by mu
	paths  []string         // guarded by mu
}

// ServeHTTP answers like a provider of chat.
func (h *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	raw, _ := io.ReadAll(r.Body)
	json.Unmarshal(raw, &body)
	h.mu.Lock()
	h.bodies, h.paths = append(h.bodies, body), append(h.paths, r.URL.Path)
	h.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Of-The-Provider", "yes")
	if body["model"] == "broken" {
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"error":{"message":"no such model"}}`)
		return
	}
	io.WriteString(w, chatBody)
}

// last returns what came last, as JSON without spaces.
func (h *listener) last(t *testing.T) string {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.bodies) == 0 {
		t.Fatal("nothing reached the provider")
	}
	b, err := json.Marshal(h.bodies[len(h.bodies)-1])
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (h *listener) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.bodies)
}

// prompted is a gateway with a provider that keeps what it hears.
type prompted struct {
	*gatewaytest.Gateway
	listener *listener
	t        *testing.T
}

func newPrompted(t *testing.T) *prompted {
	h := new(listener)
	return &prompted{gatewaytest.New(t, gatewaytest.Options{Upstream: h}), h, t}
}

// save makes a prompt or a partial of a body and returns its slug.
func (p *prompted) save(path, body string) string {
	p.t.Helper()
	res := p.Post(path, body)
	slug, _ := res.JSON(p.t)["slug"].(string)
	if res.Status != http.StatusOK || slug == "" {
		p.t.Fatalf("POST %s: %d %s", path, res.Status, res.Body)
	}
	return slug
}

func (p *prompted) put(path, body string) {
	p.t.Helper()
	if res := p.Do(p.Request("PUT", path, body)); res.Status != http.StatusOK {
		p.t.Fatalf("PUT %s: %d %s", path, res.Status, res.Body)
	}
}

// run runs a prompt without a provider header.
func (p *prompted) run(ref, body string, h ...string) gatewaytest.Response {
	p.t.Helper()
	return p.Post("/prompts/"+ref+"/completions", body, append([]string{"x-gateway-provider", ""}, h...)...)
}

const greeting = `{"name":"Greeting","string":"[{\"role\":\"user\",\"content\":\"Hello {{name}}\"}]","parameters":{"temperature":0.5,"stream":true},"model":"m1","virtual_key":"simulator"}`

func TestASavedPromptRespondsInItsEnvelope(t *testing.T) {
	t.Parallel()
	p := newPrompted(t)
	slug := p.save("/prompts", greeting)
	res := p.run(slug, `{"variables":{"name":"a \"b\"\n{{c}}"},"max_tokens":5,"temperature":1,"top_p":null,"promptID":"x"}`)
	if res.Status != http.StatusOK {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	if want := `{"max_tokens":5,"messages":[{"content":"Hello a \"b\"\n{{c}}","role":"user"}],"model":"m1","temperature":1}`; p.listener.last(t) != want {
		t.Errorf("the provider was sent %s, want %s", p.listener.last(t), want)
	}
	var out struct {
		Status  string
		Headers map[string]string
		Body    json.RawMessage
		ID      string
		Choices []any
	}
	if err := json.Unmarshal(res.Body, &out); err != nil {
		t.Fatal(err)
	}
	if out.Status != "success" || string(out.Body) != chatBody || out.ID != "c" || len(out.Choices) != 1 {
		t.Errorf("answer %s", res.Body)
	}
	if out.Headers["x-of-the-provider"] != "yes" || out.Headers["x-gateway-provider"] != "openai-compatible" || out.Headers["content-type"] != "application/json" {
		t.Errorf("headers %v", out.Headers)
	}
	e := p.Entry(res)
	saved, _ := e["prompt"].(map[string]any)
	if saved["slug"] != slug || saved["version"] != 1.0 || saved["id"] == "" || e["operation"] != "chat" || e["provider_slug"] != "simulator" {
		t.Errorf("recorded %v, prompt %v", e, saved)
	}
	if m, _ := e["metadata"].(map[string]any); m["_prompt"] != slug {
		t.Errorf("metadata %v", e["metadata"])
	}
}

func TestARequestNamesTheVersionItWants(t *testing.T) {
	t.Parallel()
	p := newPrompted(t)
	slug := p.save("/prompts", greeting)
	p.put("/prompts/"+slug, `{"patch":true,"model":"m2"}`)
	p.put("/prompts/"+slug+"/versions/2", `{"label_id":"00000000-0000-7000-8000-000000000012"}`)
	model := func(ref string) string {
		t.Helper()
		if res := p.run(ref, `{}`); res.Status != http.StatusOK {
			return string(res.Body)
		}
		return p.listener.last(t)
	}
	for which, want := range map[string]string{"": "m1", "@latest": "m2", "@1": "m1", "@2": "m2", "@staging": "m2", "%40latest": "m2", "@default": "m1"} {
		if got := model(slug + which); !strings.Contains(got, `"model":"`+want+`"`) {
			t.Errorf("%s%s: %s, want %s", slug, which, got, want)
		}
	}
	before := p.listener.count()
	for ref, code := range map[string]string{slug + "@3": "unknown_prompt_version", slug + "@production": "unknown_prompt_version", "pp-none": "unknown_prompt", "partials": "unknown_prompt"} {
		if res := p.run(ref, `{}`); res.Status != http.StatusNotFound || !strings.Contains(string(res.Body), code) {
			t.Errorf("%s: %d %s, want 404 %s", ref, res.Status, res.Body, code)
		}
	}
	if p.listener.count() != before {
		t.Error("a version that is not there reached the provider")
	}
	p.put("/prompts/"+slug+"/makeDefault", `{"version":2}`)
	if got := model(slug); !strings.Contains(got, `"model":"m2"`) {
		t.Errorf("after publishing: %s", got)
	}
	if res := p.Do(p.Request("DELETE", "/prompts/"+slug, "")); res.Status != http.StatusOK {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	if res := p.run(slug, `{}`); res.Status != http.StatusNotFound {
		t.Errorf("after archiving: %d %s", res.Status, res.Body)
	}
}

func TestForeignMembersInAPromptRequestAreRefused(t *testing.T) {
	t.Parallel()
	p := newPrompted(t)
	slug := p.save("/prompts", greeting)
	for body, param := range map[string]string{
		`{"variables":{"name":1}}`: "variables.name", `{"variables":{"name":{"a":"b"}}}`: "variables.name", `{"variables":{"name":null}}`: "variables.name",
		`{"variables":[]}`: "variables", `{"variables":"x"}`: "variables", `{"temperature":3}`: "temperature", `{"temperature":"1"}`: "temperature", `{"stream":"yes"}`: "stream",
		`{"messages":[{"role":"user","content":"x"}]}`: "messages", `{"prompt":"x"}`: "prompt", `{"parameters":{"temperature":1}}`: "parameters",
		`{"hyperparameters":{}}`: "hyperparameters", `{"n":0}`: "n", `[]`: "", `{"variables":{},"variables":{}}`: "variables",
	} {
		res := p.run(slug, body)
		e, _ := res.JSON(t)["error"].(map[string]any)
		if got, _ := e["param"].(string); res.Status != http.StatusBadRequest || got != param {
			t.Errorf("%s: %d, param %q: %s; want 400 for %q", body, res.Status, got, res.Body, param)
		}
	}
	hot := p.save("/prompts", `{"name":"Hot","string":"[{\"role\":\"user\",\"content\":\"x\"}]","parameters":{"temperature":3},"model":"m","virtual_key":"simulator"}`)
	if res := p.run(hot, `{}`); res.Status != http.StatusBadRequest {
		t.Errorf("a temperature that is stored: %d %s", res.Status, res.Body)
	}
	raw := p.save("/prompts", `{"name":"Raw","string":"[{{list}}]","is_raw_template":1,"model":"m","virtual_key":"simulator"}`)
	if res := p.run(raw, `{"variables":{"list":"{\"role\":\"system\",\"content\":\"x\"}"}}`); res.Status != http.StatusBadRequest {
		t.Errorf("a message from a variable: %d %s", res.Status, res.Body)
	}
	if n := p.listener.count(); n != 0 {
		t.Errorf("%d requests reached the provider, want none", n)
	}
}

func TestAnErrorOfTheProviderHasNoEnvelope(t *testing.T) {
	t.Parallel()
	p := newPrompted(t)
	slug := p.save("/prompts", greeting)
	res := p.run(slug, `{"model":"broken"}`)
	if e, _ := res.JSON(t)["error"].(map[string]any); res.Status != http.StatusBadRequest || e["source"] != "provider" || res.JSON(t)["headers"] != nil {
		t.Errorf("%d %s", res.Status, res.Body)
	}
}

func TestARequestsOwnProviderComesBeforeThePrompts(t *testing.T) {
	t.Parallel()
	p := newPrompted(t)
	slug := p.save("/prompts", strings.Replace(greeting, `"simulator"`, `"nobody"`, 1))
	if res := p.run(slug, `{}`); res.Status != http.StatusNotFound || !strings.Contains(string(res.Body), "unknown_slug") {
		t.Errorf("the prompt's own: %d %s", res.Status, res.Body)
	}
	for name, h := range map[string][]string{
		"a header": {"x-gateway-provider", "@simulator"}, "a config": {"x-gateway-config", `{"provider":"@simulator"}`},
		"a config that leaves it to the header": {"x-gateway-provider", "@simulator", "x-gateway-config", `{"retry":{"attempts":1}}`},
	} {
		if res := p.run(slug, `{}`, h...); res.Status != http.StatusOK {
			t.Errorf("%s: %d %s", name, res.Status, res.Body)
		}
	}
	if res := p.run(slug, `{"model":"@simulator/m9"}`); res.Status != http.StatusOK || !strings.Contains(p.listener.last(t), `"model":"m9"`) {
		t.Errorf("the model: %d %s", res.Status, res.Body)
	}
	for provider, want := range map[string]int{"@simulator": 200, "": 404} {
		if res := p.Post("/chat/completions", ownQuestion, "x-gateway-provider", provider, "x-gateway-config", `{"prompt_id":"`+slug+`"}`); res.Status != want {
			t.Errorf("a config's prompt with the provider %q: %d %s, want %d", provider, res.Status, res.Body, want)
		}
	}
	own := p.save("/prompts", greeting)
	if res := p.run(own, `{}`, "x-gateway-config", `{"retry":{"attempts":1}}`); res.Status != http.StatusOK {
		t.Errorf("a config that leaves it to the prompt: %d %s", res.Status, res.Body)
	}
}

func TestAPromptMayBeACompletion(t *testing.T) {
	t.Parallel()
	p := newPrompted(t)
	partial := p.save("/prompts/partials", `{"name":"Tone","string":"Be {{how}}."}`)
	slug := p.save("/prompts", `{"name":"Text","string":"{{>`+partial+`}} {{q}}","model":"m","virtual_key":"simulator"}`)
	res := p.run(slug, `{"variables":{"how":"kind","q":"Why?"}}`)
	if want := `{"model":"m","prompt":"Be kind. Why?"}`; res.Status != http.StatusOK || p.listener.last(t) != want || p.listener.paths[0] != "/v1/completions" {
		t.Errorf("%d %s: the provider was sent %s to %v, want %s", res.Status, res.Body, p.listener.last(t), p.listener.paths, want)
	}
	p.put("/prompts/partials/"+partial, `{"string":"Stay {{how}}."}`)
	p.put("/prompts/partials/"+partial+"/makeDefault", `{"version":2}`)
	if p.run(slug, `{"variables":{"how":"calm"}}`); !strings.Contains(p.listener.last(t), "Stay calm.") {
		t.Errorf("after publishing the partial: %s", p.listener.last(t))
	}
	if res := p.Do(p.Request("DELETE", "/prompts/partials/"+partial, "")); res.Status != http.StatusOK {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	if res := p.run(slug, `{}`); res.Status != http.StatusNotFound || !strings.Contains(string(res.Body), "unknown_partial") {
		t.Errorf("without the partial: %d %s", res.Status, res.Body)
	}
}

func TestAPromptIsShownAndNotSent(t *testing.T) {
	t.Parallel()
	p := newPrompted(t)
	slug := p.save("/prompts", greeting)
	res := p.Post("/prompts/"+slug+"/render", `{"variables":{"name":"you"},"top_p":0.1}`)
	if want := `{"success":true,"data":{"model":"m1","messages":[{"role":"user","content":"Hello you"}],"temperature":0.5,"top_p":0.1}}`; res.Status != http.StatusOK || string(res.Body) != want {
		t.Errorf("%d %s, want %s", res.Status, res.Body, want)
	}
	if e := p.Entry(res); e["operation"] != "prompts.render" || e["provider"] != nil {
		t.Errorf("recorded %v", e)
	}
	for body, status := range map[string]int{`{"variables":{"name":1}}`: 400, `{"temperature":3}`: 400} {
		if res := p.Post("/prompts/"+slug+"/render", body); res.Status != status {
			t.Errorf("%s: %d %s", body, res.Status, res.Body)
		}
	}
	if n := p.listener.count(); n != 0 {
		t.Errorf("%d requests reached the provider", n)
	}
}

func TestOnlyTheTwoPathsOfAPromptAreTheGateways(t *testing.T) {
	t.Parallel()
	p := newPrompted(t)
	for path, method := range map[string]string{"/prompts/x/other": "POST", "/prompts/x/y/completions": "POST", "/prompts/x/completions": "GET", "/prompts/x/render/y": "POST", "/prompts/completions": "POST"} {
		before := p.listener.count()
		if res := p.Do(p.Request(method, path, `{}`)); res.Status != http.StatusNotFound && res.Status != http.StatusMethodNotAllowed || p.listener.count() != before {
			t.Errorf("%s %s: %d %s, want 404 or 405", method, path, res.Status, res.Body)
		}
		if res := p.Do(p.Request(method, path, `{}`, "x-gateway-pass-through", "true")); res.Status != http.StatusOK || p.listener.count() != before+1 {
			t.Errorf("%s %s with the header: %d %s, want it passed through", method, path, res.Status, res.Body)
		}
	}
}

const ownQuestion = `{"model":"mine","messages":[{"role":"user","content":"own"}],"temperature":0.1,"top_p":0.9,"variables":{"name":"you"}}`

func TestAConfigsPromptMakesTheRequest(t *testing.T) {
	t.Parallel()
	p := newPrompted(t)
	slug := p.save("/prompts", greeting)
	for config, want := range map[string]string{
		`{"prompt_id":"` + slug + `"}`: `{"messages":[{"content":"Hello you","role":"user"}],"model":"m1","temperature":0.5,"top_p":0.9}`,
		`{"prompt_id":"` + slug + `@1","provider":"@simulator","override_params":{"model":"m9","seed":1},"default_params":{"temperature":0.2,"user":"u"}}`: `{"messages":[{"content":"Hello you","role":"user"}],"model":"m9","seed":1,"temperature":0.5,"top_p":0.9,"user":"u"}`,
		`{"strategy":{"mode":"fallback"},"targets":[{"provider":"@simulator","override_params":{"model":"broken"}},{"prompt_id":"` + slug + `"}]}`:         `{"messages":[{"content":"Hello you","role":"user"}],"model":"m1","temperature":0.5,"top_p":0.9}`,
		`{"strategy":{"mode":"fallback"},"targets":[{"prompt_id":"` + slug + `","override_params":{"model":"broken"}},{"provider":"@simulator"}]}`:         `{"messages":[{"content":"own","role":"user"}],"model":"mine","temperature":0.1,"top_p":0.9,"variables":{"name":"you"}}`,
	} {
		res := p.Post("/chat/completions", ownQuestion, "x-gateway-provider", "", "x-gateway-config", config)
		if res.Status != http.StatusOK || p.listener.last(t) != want {
			t.Errorf("%s: %d %s: the provider was sent %s, want %s", config, res.Status, res.Body, p.listener.last(t), want)
		}
		if string(res.Body) != chatBody {
			t.Errorf("%s: the response is %s, want the provider's alone", config, res.Body)
		}
		e := p.Entry(res)
		if _, named := e["prompt"].(map[string]any); named != strings.Contains(want, "Hello") {
			t.Errorf("%s: recorded the prompt %v", config, e["prompt"])
		}
	}
}

func TestAConfigsPromptIsReportedWhenItCantServe(t *testing.T) {
	t.Parallel()
	p := newPrompted(t)
	slug := p.save("/prompts", greeting)
	text := p.save("/prompts", `{"name":"Text","string":"x","model":"m","virtual_key":"simulator"}`)
	const completion = `{"model":"m","prompt":"x"}`
	hot := p.save("/prompts", `{"name":"Hot","string":"[{\"role\":\"user\",\"content\":\"x\"}]","parameters":{"temperature":3},"model":"m","virtual_key":"simulator"}`)
	for _, tt := range []struct {
		path, body, ref string
		status          int
		code            string
	}{
		{"/chat/completions", ownQuestion, "pp-none", 404, "unknown_prompt"},
		{"/chat/completions", ownQuestion, slug + "@7", 404, "unknown_prompt_version"},
		{"/chat/completions", ownQuestion, text, 400, "wrong_prompt_kind"},
		{"/completions", completion, slug, 400, "wrong_prompt_kind"},
		{"/chat/completions", strings.Replace(ownQuestion, `"you"`, `7`, 1), slug, 400, "invalid_variable"},
		{"/chat/completions", ownQuestion, hot, 400, "temperature"},
		{"/messages", `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"own"}]}`, slug, 501, "saved prompt"},
	} {
		res := p.Post(tt.path, tt.body, "x-gateway-provider", "", "x-gateway-config", `{"prompt_id":"`+tt.ref+`"}`)
		if res.Status != tt.status || !strings.Contains(string(res.Body), tt.code) {
			t.Errorf("%s with %s: %d %s, want %d %s", tt.path, tt.ref, res.Status, res.Body, tt.status, tt.code)
		}
	}
	if n := p.listener.count(); n != 0 {
		t.Errorf("%d requests reached the provider", n)
	}
	res := p.Post("/embeddings", `{"model":"m","input":"x"}`, "x-gateway-config", `{"prompt_id":"`+slug+`"}`)
	if res.Status != http.StatusOK || res.Header.Get("x-gateway-params") != "prompt_id;ignored" {
		t.Errorf("embeddings: %d %s, %q", res.Status, res.Body, res.Header.Get("x-gateway-params"))
	}
	if res := p.Post("/completions", completion, "x-gateway-config", `{"prompt_id":"`+text+`"}`); res.Status != http.StatusOK || p.listener.last(t) != `{"model":"m","prompt":"x"}` {
		t.Errorf("a text: %d %s, sent %s", res.Status, res.Body, p.listener.last(t))
	}
}

func TestExplainTellsWhichVersionApplies(t *testing.T) {
	t.Parallel()
	p := newPrompted(t)
	slug := p.save("/prompts", greeting)
	const said = "the saved prompt SLUG makes the request, in its version 1"
	for name, question := range map[string]string{
		"a path":   `{"request":{"path":"/v1/prompts/` + slug + `/completions","body":{"variables":{"name":"you"}}}}`,
		"a config": `{"request":{"body":` + ownQuestion + `},"config":{"prompt_id":"` + slug + `"}}`,
	} {
		res := p.Post("/explain", question)
		if !strings.Contains(string(res.Body), strings.Replace(said, "SLUG", slug, 1)) || !strings.Contains(string(res.Body), "Hello you") {
			t.Errorf("%s: %d %s", name, res.Status, res.Body)
		}
	}
	res := p.Post("/explain", `{"request":{"path":"/v1/prompts/`+slug+`/render","body":{}}}`)
	if res.Status != http.StatusOK || res.JSON(t)["attempt"] != nil || p.listener.count() != 0 {
		t.Errorf("of what only shows: %d %s", res.Status, res.Body)
	}
}

func TestAPromptOfAnotherWorkspaceIsNotThere(t *testing.T) {
	t.Parallel()
	p := newPrompted(t)
	w := p.Post("/workspaces", `{"name":"Other"}`).JSON(t)
	slug := p.save("/prompts", `{"name":"Theirs","string":"x","model":"m","virtual_key":"simulator","workspace_id":"`+w["id"].(string)+`"}`)
	for path, body := range map[string]string{"/prompts/" + slug + "/completions": `{}`, "/prompts/" + slug + "/render": `{}`} {
		if res := p.Post(path, body); res.Status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, res.Status, res.Body)
		}
	}
	if res := p.Post("/chat/completions", ownQuestion, "x-gateway-config", `{"prompt_id":"`+slug+`"}`); res.Status != http.StatusNotFound {
		t.Errorf("in a config: %d %s", res.Status, res.Body)
	}
	partial := p.save("/prompts/partials", `{"name":"Theirs","string":"x","workspace_id":"`+w["id"].(string)+`"}`)
	own := p.save("/prompts", `{"name":"Mine","string":"{{>`+partial+`}}","model":"m","virtual_key":"simulator"}`)
	if res := p.run(own, `{}`); res.Status != http.StatusNotFound {
		t.Errorf("a partial of theirs: %d %s", res.Status, res.Body)
	}
}

func TestASavedPromptStreamsWithoutAnEnvelope(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	slug, _ := g.Post("/prompts", greeting).JSON(t)["slug"].(string)
	res := g.Post("/prompts/"+slug+"/completions", `{"variables":{"name":"you"},"stream":true}`, "x-gateway-provider", "")
	if res.Status != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") ||
		!strings.Contains(string(res.Body), `"object":"chat.completion.chunk"`) || !strings.HasSuffix(string(res.Body), "data: [DONE]\n\n") {
		t.Errorf("%d %s", res.Status, res.Body)
	}
	whole := g.Post("/prompts/"+slug+"/completions", `{"variables":{"name":"you"}}`, "x-gateway-provider", "")
	if whole.Status != http.StatusOK || whole.JSON(t)["status"] != "success" || whole.JSON(t)["object"] != "chat.completion" {
		t.Errorf("%d %s", whole.Status, whole.Body)
	}
}
