package dataplane_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/base/secret"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider"
	"modelgate/internal/server"
	"modelgate/internal/snapshot"
	"modelgate/internal/store"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// judgingProvider answers the model judge with a verdict on the text, false if it has
// the word rude, and moderations likewise. It answers all others like a textProvider.
type judgingProvider struct {
	textProvider
	status int           // of the judge; 0 means 200
	hold   chan struct{} // the judge identifies languages when it can receive; nil: at once

	mu     sync.Mutex
	judged []string // bodies that the judge got; guarded by mu
}

func (p *judgingProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var in struct{ Model string }
	_ = json.Unmarshal(body, &in)
	if !strings.HasSuffix(in.Model, "judge") {
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		p.textProvider.ServeHTTP(w, r)
		return
	}
	p.mu.Lock()
	p.judged = append(p.judged, string(body))
	p.mu.Unlock()
	if p.hold != nil && strings.Contains(string(body), "identify languages") {
		<-p.hold
	}
	w.Header().Set("Content-Type", "application/json")
	rude := strings.Contains(string(body), "rude")
	switch {
	case p.status != 0:
		w.WriteHeader(p.status)
		io.WriteString(w, `{"error":{"message":"no","type":"t"}}`)
	case strings.HasSuffix(r.URL.Path, "/moderations"):
		fmt.Fprintf(w, `{"id":"m","model":"judge","results":[{"flagged":%t,"categories":{"harassment":%t,"hate":false}}]}`, rude, rude)
	default:
		fmt.Fprintf(w, `{"id":"j","object":"chat.completion","model":"judge","choices":[{"index":0,"message":{"role":"assistant","content":"{\"verdict\":%t,\"reason\":\"seen\"}"},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}}`, !rude)
	}
}

// sawJudge returns what the judge has got.
func (p *judgingProvider) sawJudge() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.judged...)
}

const (
	judgePrices = "prices: [{provider: openai-compatible, model: m, input: 1, output: 1}, {provider: openai-compatible, model: judge, input: 10, output: 20}]\n"
	judgeCheck  = `"gateway.modelCheck":{"model":"@simulator/judge","instructions":"is polite"}`
	// Costs in cents, the unit of log entries.
	chatCost  = (3 + 2) * 1e-4
	judgeCost = (100*10 + 10*20) * 1e-4
)

func sayChat(text string, stream bool) string {
	return fmt.Sprintf(`{"model":"m","stream":%t,"messages":[{"role":"user","content":%q}]}`, stream, text)
}

func TestAModelChecksRequestsAndResponses(t *testing.T) {
	t.Parallel()
	p := &judgingProvider{textProvider: textProvider{texts: []string{"fine", "fine", "so rude", "fine", "so rude"}}}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p, Settings: judgePrices})
	before := guarded(`"input_guardrails":[{"id":"in","deny":true,` + judgeCheck + `}]`)
	after := guarded(`"output_guardrails":[{"id":"out","deny":true,` + judgeCheck + `}]`)
	for _, tt := range []struct {
		name, config, body string
		status             int
		cost               float64
		targets            string
	}{
		{"polite request", before, sayChat("hello", false), 200, chatCost + judgeCost, "config,check gateway.modelCheck: config"},
		{"rude request", before, sayChat("rude", false), 446, judgeCost, "check gateway.modelCheck: config"},
		{"polite response", after, sayChat("hello", false), 200, chatCost + judgeCost, "config,check gateway.modelCheck: config"},
		{"rude response", after, sayChat("hello", false), 446, chatCost + judgeCost, "config,check gateway.modelCheck: config"},
		{"polite stream", after, sayChat("hello", true), 200, -1, "config,check gateway.modelCheck: config"},
		{"rude stream", after, sayChat("hello", true), 446, -1, "config,check gateway.modelCheck: config"},
	} {
		res := g.Post("/chat/completions", tt.body, "x-gateway-config", tt.config, "x-gateway-provider", "")
		if res.Status != tt.status {
			t.Errorf("%s: status %d, want %d: %s", tt.name, res.Status, tt.status, res.Body)
		}
		e := g.Entry(res)
		if cost, _ := e["cost"].(float64); tt.cost >= 0 && fmt.Sprintf("%.9f", cost) != fmt.Sprintf("%.9f", tt.cost) {
			t.Errorf("%s: cost %v, want %v", tt.name, e["cost"], tt.cost)
		}
		var targets []string
		for _, a := range e["attempts"].([]any) {
			targets = append(targets, str(at(a, "target")))
			if at(a, "status") != 200.0 {
				t.Errorf("%s: attempt %v", tt.name, a)
			}
		}
		if got := strings.Join(targets, ","); got != tt.targets {
			t.Errorf("%s: attempts %s, want %s", tt.name, got, tt.targets)
		}
	}
	seen := p.sawJudge()
	if len(seen) != 6 {
		t.Fatalf("the judge was asked %d times, want 6", len(seen))
	}
	var asked struct {
		Messages []struct{ Role, Content string }
		Max      int `json:"max_completion_tokens"`
		Max2     int `json:"max_tokens"`
		Format   any `json:"response_format"`
		Stream   bool
	}
	if err := json.Unmarshal([]byte(seen[1]), &asked); err != nil || len(asked.Messages) != 2 || asked.Messages[0].Role != "system" || !strings.Contains(asked.Messages[0].Content, "is polite") ||
		strings.Contains(asked.Messages[0].Content, "rude") || !strings.Contains(asked.Messages[1].Content, ">\nrude\n</text-") || asked.Max+asked.Max2 != 500 ||
		at(asked.Format, "json_schema.strict") != true || asked.Stream {
		t.Errorf("the judge got %s", seen[1])
	}
}

func TestAModerationModelChecks(t *testing.T) {
	t.Parallel()
	p := &judgingProvider{textProvider: textProvider{texts: []string{"fine"}}}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	for text, want := range map[string]int{"hello": 200, "rude": 446} {
		for category, found := range map[string]bool{"harassment": true, "hate": false} {
			config := guarded(`"input_guardrails":[{"id":"in","deny":true,"gateway.moderateContent":{"model":"@simulator/judge","categories":["` + category + `"]}}]`)
			res := g.Post("/chat/completions", sayChat(text, false), "x-gateway-config", config, "x-gateway-provider", "")
			status := want
			if !found {
				status = 200
			}
			if res.Status != status {
				t.Errorf("%s, %s: status %d, want %d: %s", text, category, res.Status, status, res.Body)
			}
		}
	}
}

// What a check in the background costs is in the entry and in the limits of the key,
// although the response was sent before.
func TestBooksAreExactWithChecksByAModel(t *testing.T) {
	t.Parallel()
	p := &judgingProvider{textProvider: textProvider{texts: []string{"fine"}}}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p, Settings: judgePrices})
	var made struct{ Key string }
	res := g.Post("/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["completions.write"],"rate_limits":[{"type":"requests","unit":"rpd","value":100},{"type":"tokens","unit":"rpd","value":100000}],"usage_limits":{"type":"cost","credit_limit":4}}`)
	if err := json.Unmarshal(res.Body, &made); err != nil || made.Key == "" {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	waittest.Until(t, "the key is known", func() bool { return g.Get("/models", "x-gateway-api-key", made.Key).Status != 401 })
	total, requests, tokens := 0.0, 0.0, 0.0
	for _, members := range []string{
		`"input_guardrails":[{"id":"a","deny":true,` + judgeCheck + `}]`,
		`"input_guardrails":[{"id":"b","async":true,` + judgeCheck + `}],"output_guardrails":[{"id":"c","async":true,` + judgeCheck + `}]`,
		`"output_guardrails":[{"id":"d","mode":"shadow",` + judgeCheck + `}]`,
	} {
		res := g.Post("/chat/completions", sayChat("hello", false), "x-gateway-api-key", made.Key, "x-gateway-config", guarded(members), "x-gateway-provider", "")
		if res.Status != 200 {
			t.Fatalf("status %d: %s", res.Status, res.Body)
		}
		e := g.Entry(res)
		judged := float64(strings.Count(members, "gateway.modelCheck"))
		if cost, _ := e["cost"].(float64); fmt.Sprintf("%.9f", cost) != fmt.Sprintf("%.9f", chatCost+judged*judgeCost) {
			t.Errorf("%s: cost %v, want %v", members, e["cost"], chatCost+judged*judgeCost)
		}
		total, requests, tokens = total+chatCost+judged*judgeCost, requests+1, tokens+5+judged*110
	}
	res = g.Get("/limits", "x-gateway-api-key", made.Key)
	got := map[string]float64{}
	for _, l := range res.JSON(t)["data"].([]any) {
		got[str(at(l, "type"))], _ = at(l, "used").(float64)
		if reserved, _ := at(l, "reserved").(float64); reserved != 0 {
			t.Errorf("still reserved: %v", l)
		}
	}
	if got["requests"] != requests || got["tokens"] != tokens || fmt.Sprintf("%.9f", got["cost"]*100) != fmt.Sprintf("%.9f", total) {
		t.Errorf("used %v, want %v requests, %v tokens, cost %v", got, requests, tokens, total)
	}
}

// A check in the background is the first that a policy counts, after the request was
// counted and ended: nothing stays reserved.
func TestBackgroundChecksSettleTheLimitsOfPolicies(t *testing.T) {
	t.Parallel()
	p := &judgingProvider{textProvider: textProvider{texts: []string{"fine"}}, hold: make(chan struct{})}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	made := g.Post("/policies/rate-limits", `{"name":"judges","workspace_id":"default","type":"requests","unit":"rpd","value":50,"conditions":[{"key":"model","value":"judge"}],"group_by":[{"key":"model"}]}`)
	id := str(made.JSON(t)["id"])
	if id == "" {
		t.Fatalf("%d %s", made.Status, made.Body)
	}
	used := func() any { return at(g.Get("/limits?owner=policy&id="+id).JSON(t), "data.0.used") }
	waittest.Until(t, "the policy is known", func() bool {
		return g.Post("/chat/completions", strings.Replace(sayChat("hello", false), `"m"`, `"judge"`, 1)).Status == 200 && used() != nil
	})
	before := used().(float64)
	config := guarded(`"output_guardrails":[{"id":"c","async":true,"sequential":true,"gateway.language":{"model":"@simulator/slow-judge","language":"x"},"gateway.modelCheck":{"model":"@simulator/judge","instructions":"is polite"}}]`)
	res := g.Post("/chat/completions", sayChat("hello", false), "x-gateway-config", config, "x-gateway-provider", "")
	awaitInFlight(t, g, 0)
	p.hold <- struct{}{} // the first check ends, so the second asks
	if attempts := g.Entry(res)["attempts"].([]any); len(attempts) != 3 {
		t.Fatalf("attempts %v", attempts)
	}
	l := at(g.Get("/limits?owner=policy&id="+id).JSON(t), "data.0")
	if at(l, "reserved") != 0.0 || at(l, "used") != before+1 {
		t.Errorf("%v of the policy are used, %v reserved, want %v used: %v", at(l, "used"), at(l, "reserved"), before+1, l)
	}
}

// A check in the background of a cached response makes the only attempt, after the
// request has ended: its place in the limit of requests in progress ends too.
func TestBackgroundChecksEndTheirPlace(t *testing.T) {
	t.Parallel()
	p := &judgingProvider{textProvider: textProvider{texts: []string{"fine"}}}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	release := make(chan struct{})
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-release
		io.WriteString(w, `{"verdict":true}`)
	}))
	defer hook.Close()
	var made struct{ Key string }
	res := g.Post("/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["completions.write"],"rate_limits":[{"type":"requests","unit":"concurrent","value":5}]}`)
	if err := json.Unmarshal(res.Body, &made); err != nil || made.Key == "" {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	waittest.Until(t, "the key is known", func() bool { return g.Get("/models", "x-gateway-api-key", made.Key).Status != 401 })
	config := guarded(`"cache":{"mode":"simple"},"input_guardrails":[{"id":"c","async":true,"sequential":true,"default.webhook":{"webhookURL":"` + hook.URL + `","timeout":60000},` + judgeCheck + `}]`)
	for _, want := range []string{"MISS", "HIT"} {
		res := g.Post("/chat/completions", sayChat("hello", false), "x-gateway-api-key", made.Key, "x-gateway-config", config, "x-gateway-provider", "")
		if got := res.Header.Get("x-gateway-cache-status"); got != want {
			t.Fatalf("%s, want %s: %d %s", got, want, res.Status, res.Body)
		}
		awaitInFlight(t, g, 0)
		release <- struct{}{}
		if e := g.Entry(res); !strings.Contains(fmt.Sprint(e["attempts"]), "check gateway.modelCheck") {
			t.Errorf("%s: attempts %v", want, e["attempts"])
		}
	}
	l := at(g.Get("/limits", "x-gateway-api-key", made.Key).JSON(t), "data.0")
	if at(l, "unit") != "concurrent" || at(l, "reserved") != 0.0 || at(l, "used") != 0.0 {
		t.Errorf("after all requests have ended: %v", l)
	}
}

func TestAModelThatFailsFailsTheCheckByDefault(t *testing.T) {
	t.Parallel()
	p := &judgingProvider{textProvider: textProvider{texts: []string{"fine"}}, status: 500}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	for members, want := range map[string]int{
		judgeCheck: 446,
		`"gateway.modelCheck":{"model":"@simulator/judge","instructions":"x","failOnError":false}`:      200,
		`"gateway.modelCheck":{"model":"@nowhere/judge","instructions":"x"}`:                            446,
		`"gateway.modelCheck":{"config":"pc-nowhere","instructions":"x"}`:                               446,
		`"gateway.modelCheck":{"model":"@simulator/judge","instructions":"x","scope":"all","not":true}`: 446,
	} {
		res := g.Post("/chat/completions", sayChat("hello", false), "x-gateway-config", guarded(`"input_guardrails":[{"id":"in","deny":true,`+members+`}]`), "x-gateway-provider", "")
		problem := str(at(res.JSON(t), "hook_results.before_request_hooks.0.checks.0.error.message"))
		if res.Status != want || !strings.HasPrefix(problem, "the model did not respond: ") {
			t.Errorf("%s: status %d, want %d, %q: %s", members, res.Status, want, problem, res.Body)
		}
	}
}

// The request of a check runs without the guardrails of its config: one that has the
// check itself does not ask for ever.
func TestTheConfigOfACheckServesItWithoutItsGuardrails(t *testing.T) {
	t.Parallel()
	p := &judgingProvider{textProvider: textProvider{texts: []string{"fine"}}}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	saved := g.Post("/configs", `{"name":"judge","config":{"provider":"@simulator","override_params":{"model":"judge"}}}`)
	slug := str(at(saved.JSON(t), "data.slug"))
	if slug == "" {
		t.Fatalf("%d %s", saved.Status, saved.Body)
	}
	own := `{"provider":"@simulator","override_params":{"model":"judge"},"input_guardrails":[{"id":"self","deny":true,"gateway.modelCheck":{"config":"` + slug + `","instructions":"x"}}]}`
	if res := g.Do(g.Request("PUT", "/configs/"+slug, `{"config":`+own+`}`)); res.Status != 200 {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	guard := g.Post("/guardrails", `{"name":"polite","workspace_id":"default","actions":{"deny":true},"checks":[{"id":"gateway.modelCheck","parameters":{"config":"`+slug+`","instructions":"is polite"}}]}`)
	for _, item := range []string{`{"id":"in","deny":true,"gateway.modelCheck":{"config":"` + slug + `","instructions":"is polite"}}`, `"` + str(guard.JSON(t)["slug"]) + `"`} {
		config := guarded(`"input_guardrails":[` + item + `]`)
		for text, want := range map[string]int{"hello": 200, "rude": 446} {
			before := 0
			waittest.Until(t, "the config is known", func() bool {
				before = len(p.sawJudge())
				res := g.Post("/chat/completions", sayChat(text, false), "x-gateway-config", config, "x-gateway-provider", "")
				return res.Status == want && !strings.Contains(string(res.Body), "not found")
			})
			if n := len(p.sawJudge()) - before; n != 1 {
				t.Errorf("%s, %s: the judge was asked %d times, want once", item, text, n)
			}
		}
	}
}

// A check in a config sends nothing that the guardrails of the organisation deny, and
// those of the organisation ask models without asking themselves.
func TestACheckOfAConfigIsBoundByTheDefaultGuardrails(t *testing.T) {
	t.Parallel()
	p := &judgingProvider{textProvider: textProvider{texts: []string{"fine"}}}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	var made struct{ Slug string }
	saved := g.Post("/guardrails", `{"name":"dlp","organisation_id":"default","actions":{"deny":true},"checks":[{"id":"default.contains","parameters":{"words":["Bluebird"],"operator":"none","scope":"all"}},{"id":"gateway.modelCheck","parameters":{"model":"@simulator/judge","instructions":"of the organisation"}}]}`)
	if err := json.Unmarshal(saved.Body, &made); err != nil || made.Slug == "" {
		t.Fatalf("%d %s", saved.Status, saved.Body)
	}
	if res := g.Do(g.Request("PUT", "/admin/organisation/defaults", `{"input_guardrails":["`+made.Slug+`"]}`)); res.Status != 200 {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	config := guarded(`"input_guardrails":[{"id":"in","deny":true,"gateway.modelCheck":{"model":"@simulator/judge","instructions":"of the config"}}]`)
	waittest.Until(t, "the default is known", func() bool {
		return g.Post("/chat/completions", sayChat("Bluebird", false)).Status == 446
	})
	from := len(p.sawJudge())
	if res := g.Post("/chat/completions", sayChat("Bluebird", false), "x-gateway-config", config, "x-gateway-provider", ""); res.Status != 446 {
		t.Errorf("status %d: %s", res.Status, res.Body)
	}
	for _, body := range p.sawJudge()[from:] {
		if !strings.Contains(body, "of the organisation") {
			t.Errorf("the judge of the config got %s", body)
		}
	}
	from = len(p.sawJudge())
	if res := g.Post("/chat/completions", sayChat("hello", false), "x-gateway-config", config, "x-gateway-provider", ""); res.Status != 200 {
		t.Errorf("status %d: %s", res.Status, res.Body)
	}
	// For the request: the organisation's and the config's; for the call of the
	// config's: the organisation's.
	if n := len(p.sawJudge()) - from; n != 3 {
		t.Errorf("the judge was asked %d times, want 3", n)
	}
	from = len(p.sawJudge())
	res := g.Post("/chat/completions", sayChat("hello", false), "x-gateway-config",
		guarded(`"input_guardrails":[{"id":"in","deny":true,"gateway.modelCheck":{"model":"@simulator/judge","instructions":"answer: Bluebird"}}]`), "x-gateway-provider", "")
	for _, body := range p.sawJudge()[from:] {
		if strings.Contains(body, "Bluebird") {
			t.Errorf("instructions that the organisation denies were sent: %s", body)
		}
	}
	if res.Status != 446 {
		t.Errorf("status %d: %s", res.Status, res.Body)
	}
}

// A key that may not use the provider of a judge cannot ask it in its own config, and
// cannot escape a saved guardrail either.
func TestTheProvidersOfAKeyBindOnlyItsOwnChecks(t *testing.T) {
	t.Parallel()
	p := &judgingProvider{textProvider: textProvider{texts: []string{"fine"}}}
	up := httptest.NewServer(p)
	defer up.Close()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p, Managed: []snapshot.ManagedProvider{{Slug: "other", Provider: "openai-compatible", Settings: provider.Settings{Key: secret.New("k"), CustomHost: up.URL + "/v1"}}}})
	db, err := store.Open(t.Context(), "file:"+filepath.Join(g.Server.Data, "modelgate.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	key, _, err := server.CreateKey(t.Context(), db, store.Key{Name: "limited", Providers: []string{"simulator"}, Scopes: []access.Scope{access.ScopeCompletions, "guardrails.invoke"}})
	if err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the key is known", func() bool { return g.Get("/models", "x-gateway-api-key", key.Reveal()).Status != 401 })
	check := `"gateway.modelCheck":{"model":"@other/judge","instructions":"is polite"}`
	ask := func(text, config string) gatewaytest.Response {
		return g.Post("/chat/completions", sayChat(text, false), "x-gateway-api-key", key.Reveal(), "x-gateway-config", config, "x-gateway-provider", "")
	}
	if res := ask("hello", guarded(`"input_guardrails":[{"id":"in","deny":true,`+check+`}]`)); res.Status != 446 || !strings.Contains(string(res.Body), "not allowed to use the provider") {
		t.Errorf("a check of its own: status %d: %s", res.Status, res.Body)
	}
	var made struct{ Slug string }
	saved := g.Post("/guardrails", `{"name":"polite","workspace_id":"default","actions":{"deny":true},"checks":[{"id":"gateway.modelCheck","parameters":{"model":"@other/judge","instructions":"is polite"}}]}`)
	if err := json.Unmarshal(saved.Body, &made); err != nil || made.Slug == "" {
		t.Fatalf("%d %s", saved.Status, saved.Body)
	}
	config := guarded(`"input_guardrails":["` + made.Slug + `"]`)
	waittest.Until(t, "the guardrail is known", func() bool { return ask("hello", config).Status == 200 })
	if res := ask("rude", config); res.Status != 446 {
		t.Errorf("a saved guardrail: status %d: %s", res.Status, res.Body)
	}
	try := func(what string) gatewaytest.Response {
		return g.Post("/guardrails/test", `{"text":"hello",`+what+`}`, "x-gateway-api-key", key.Reveal(), "x-gateway-provider", "")
	}
	if res := try(`"guardrail":"` + made.Slug + `"`); res.Status != 200 || strings.Contains(string(res.Body), `"error"`) {
		t.Errorf("a test of a saved guardrail: %d %s", res.Status, res.Body)
	}
	before := len(p.sawJudge())
	if res := try(`"checks":[{"id":"gateway.modelCheck","parameters":{"model":"@other/judge","instructions":"is polite"}}]`); res.Status != 200 || !strings.Contains(string(res.Body), "not allowed to use the provider") || len(p.sawJudge()) != before {
		t.Errorf("a test of checks that the key may not save: %d %s", res.Status, res.Body)
	}
}

func TestATestOfAGuardrailAsksItsModelAndIsPaid(t *testing.T) {
	t.Parallel()
	p := &judgingProvider{textProvider: textProvider{texts: []string{"fine"}}}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p, Settings: judgePrices})
	const checks = `"checks":[{"id":"gateway.modelCheck","parameters":{"model":"@simulator/judge","instructions":"is polite"}}],"actions":{"deny":true}`
	for text, denied := range map[string]bool{`"text":"hello"`: false, `"text":"rude"`: true, `"stream":["so ","rude"]`: true} {
		res := g.Post("/guardrails/test", `{`+text+`,`+checks+`}`)
		if out := res.JSON(t); res.Status != 200 || out["denied"] != denied {
			t.Errorf("%s: %d %s, want denied %t", text, res.Status, res.Body, denied)
		}
	}
	waittest.Until(t, "the tests are in the log", func() bool {
		found := g.Get("/logs?operation=guardrails.test").JSON(t)["data"].([]any)
		for _, e := range found {
			if fmt.Sprintf("%.9f", at(e, "cost")) != fmt.Sprintf("%.9f", judgeCost) {
				t.Fatalf("cost %v, want %v: %v", at(e, "cost"), judgeCost, e)
			}
		}
		return len(found) == 3
	})
}

// TestAnIncompleteReplyOfAModelIsAnError lets models reply with a part of what was asked.
func TestAnIncompleteReplyOfAModelIsAnError(t *testing.T) {
	t.Parallel()
	var reply string
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(string(body), `"judge"`) {
			io.WriteString(w, reply)
			return
		}
		io.WriteString(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":"fine"},"finish_reason":"stop"}]}`)
	})})
	verdict := func(finish string) string {
		return `{"choices":[{"index":0,"message":{"role":"assistant","content":"{\"verdict\":true}"},"finish_reason":"` + finish + `"}]}`
	}
	const moderation = `"gateway.moderateContent":{"model":"@simulator/judge"}`
	for _, tt := range []struct {
		check, reply string
		status       int
		want         string // in the response
	}{
		{judgeCheck, verdict("stop"), 200, "fine"},
		{judgeCheck, verdict("length"), 446, "max_tokens"},
		{judgeCheck, `{"choices":[]}`, 446, "responded with status 502"},
		{judgeCheck, `{"choices":[{"index":0,"message":{"role":"assistant","content":null},"finish_reason":"stop"}]}`, 446, "no text"},
		{moderation, `{"results":[{"flagged":false},{"flagged":false}]}`, 200, "fine"},
		{moderation, `{"results":[{"categories":{"hate":false}},{"categories":{"hate":false}}]}`, 200, "fine"},
		{moderation, `{"results":[{"flagged":false},{"flagged":true}]}`, 446, "flagged"},
		{moderation, `{"results":[{"flagged":false},{"flagged":true,"categories":{"hate":false}}]}`, 446, "flagged"},
		{moderation, `{"results":[{"flagged":false},{"categories":{"hate":true}}]}`, 446, "hate"},
		{moderation, `{"results":[{"flagged":false}]}`, 446, "not a moderation of all texts"},
		{moderation, `{"results":[{"flagged":false},{}]}`, 446, "not a moderation of all texts"},
		{moderation, `{"results":[{"flagged":false},{"flagged":false},{"flagged":false}]}`, 446, "not a moderation of all texts"},
	} {
		reply = tt.reply
		config := guarded(`"input_guardrails":[{"id":"in","deny":true,` + tt.check + `}]`)
		res := g.Post("/chat/completions", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hello"},{"type":"text","text":"there"}]}]}`, "x-gateway-config", config, "x-gateway-provider", "")
		if res.Status != tt.status || !strings.Contains(string(res.Body), tt.want) {
			t.Errorf("%.40s %s: status %d, want %d with %q: %.800s", tt.check, tt.reply, res.Status, tt.status, tt.want, res.Body)
		}
	}
}
