package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/store"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
	"modelgate/internal/testing/waittest"
)

// limitedGateway is a gateway with a provider that counts what reaches it.
type limitedGateway struct {
	*gatewaytest.Gateway
	t       *testing.T
	reached atomic.Int64
}

func newLimitedGateway(t *testing.T) *limitedGateway {
	t.Parallel()
	l := &limitedGateway{t: t}
	l.Gateway = gatewaytest.New(t, gatewaytest.Options{Settings: "log: {level: info}\n", MasterKey: "the master key of a test of limits", Simulator: recorder.Options{
		Check: func(*http.Request, []byte) error { l.reached.Add(1); return nil },
	}})
	return l
}

// key makes a key with limits and returns its secret.
func (l *limitedGateway) key(limits string) string {
	l.t.Helper()
	made := mustDo(l.t, l.Gateway, "POST", "/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["completions.write"],`+limits+`}`)
	var key struct{ Key string }
	if err := json.Unmarshal(made.Body, &key); err != nil {
		l.t.Fatal(err)
	}
	waittest.Until(l.t, "the key is known", func() bool { return l.Get("/models", "x-gateway-api-key", key.Key).Status != 401 })
	return key.Key
}

// provider makes a managed provider with limits.
func (l *limitedGateway) provider(slug, limits string) {
	l.t.Helper()
	mustDo(l.t, l.Gateway, "POST", "/integrations", fmt.Sprintf(`{"name":"I","slug":%q,"ai_provider_id":"openai","key":%q,"configurations":{"custom_host":%q},"create_default_provider":false}`,
		slug, gatewaytest.SimulatorKey, l.Upstream))
	mustDo(l.t, l.Gateway, "PUT", "/integrations/"+slug+"/workspaces", `{"workspaces":[{"id":"default","enabled":true}],"create_default_provider":false}`)
	mustDo(l.t, l.Gateway, "POST", "/providers", fmt.Sprintf(`{"name":%q,"slug":%q,"integration_id":%q,"workspace_id":"default",%s}`, slug, slug, slug, limits))
}

func (l *limitedGateway) chat(key, body string, h ...string) gatewaytest.Response {
	return l.Post("/chat/completions", body, append([]string{"x-gateway-api-key", key, "x-gateway-provider", "@simulator"}, h...)...)
}

const oneChat = `{"model":"sim-1","max_tokens":10,"messages":[{"role":"user","content":"hello"}]}`

func TestConcurrentRequestsKeepTheRateLimitOfAKey(t *testing.T) {
	l := newLimitedGateway(t)
	key := l.key(`"rate_limits":[{"type":"requests","unit":"rpd","value":7}]`)
	var successes, refused atomic.Int64
	var wg sync.WaitGroup
	for range 60 {
		wg.Go(func() {
			res := l.chat(key, oneChat)
			switch res.Status {
			case 200:
				successes.Add(1)
			case 429:
				refused.Add(1)
			default:
				t.Errorf("status %d: %s", res.Status, res.Body)
			}
		})
	}
	wg.Wait()
	if successes.Load() != 7 || refused.Load() != 53 || l.reached.Load() != 7 {
		t.Errorf("of 60 requests %d were answered, %d refused and %d reached the provider; the limit is 7", successes.Load(), refused.Load(), l.reached.Load())
	}
	res := l.chat(key, oneChat)
	wait, err := strconv.Atoi(res.Header.Get("Retry-After"))
	if err != nil || wait < 1 || wait > 24*60*60 {
		t.Errorf("Retry-After %q", res.Header.Get("Retry-After"))
	}
	reset, err := time.ParseDuration(res.Header.Get("X-Ratelimit-Reset-Requests"))
	if err != nil || reset <= 0 || res.Header.Get("X-Ratelimit-Limit-Requests") != "7" || res.Header.Get("X-Ratelimit-Remaining-Requests") != "0" {
		t.Errorf("headers %v", res.Header)
	}
	if e := l.Entry(res); e["status"] != 429.0 {
		t.Errorf("recorded %v", e)
	}
	if got := string(res.Body); !strings.Contains(got, "the rate limit of this gateway key is reached: 7 requests per day; try again in ") || !strings.Contains(got, `"code":"rate_limited"`) {
		t.Errorf("body %s", got)
	}
}

func TestRefusedRequestsSpeakTheirClientsDialect(t *testing.T) {
	l := newLimitedGateway(t)
	key := l.key(`"rate_limits":[{"type":"requests","unit":"rpd","value":1}]`)
	if res := l.chat(key, oneChat); res.Status != 200 {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	head := []string{"x-gateway-api-key", key, "x-gateway-provider", "@simulator"}
	res := l.Post("/messages", oneChat, head...)
	reset, err := time.Parse(time.RFC3339, res.Header.Get("Anthropic-Ratelimit-Requests-Reset"))
	if res.Status != 429 || res.Header.Get("Anthropic-Ratelimit-Requests-Limit") != "1" || res.Header.Get("Anthropic-Ratelimit-Requests-Remaining") != "0" ||
		err != nil || time.Until(reset) <= 0 || !strings.Contains(string(res.Body), `"type":"rate_limit_error"`) {
		t.Errorf("messages: %d %v %s", res.Status, res.Header, res.Body)
	}
	gemini := l.Request("POST", "/chat/completions", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`, head...)
	gemini.URL.Path = "/v1beta/models/sim-1:generateContent"
	res = l.Do(gemini)
	if res.Status != 429 || !strings.Contains(string(res.Body), `"retryDelay":"`) || !strings.Contains(string(res.Body), "RESOURCE_EXHAUSTED") {
		t.Errorf("gemini: %d %s", res.Status, res.Body)
	}
	converse := l.Request("POST", "/chat/completions", `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`, head...)
	converse.URL.Path = "/model/sim-1/converse"
	res = l.Do(converse)
	if res.Status != 429 || !strings.Contains(string(res.Body), `"__type":"ThrottlingException"`) {
		t.Errorf("converse: %d %v %s", res.Status, res.Header, res.Body)
	}
	tokens := l.key(`"rate_limits":[{"type":"tokens","unit":"rpd","value":1}]`)
	if res := l.chat(tokens, oneChat); res.Status != 200 {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	res = l.chat(tokens, oneChat)
	wait, err := time.ParseDuration(res.Header.Get("X-Ratelimit-Reset-Tokens"))
	if res.Status != 429 || res.Header.Get("X-Ratelimit-Limit-Tokens") != "1" || res.Header.Get("X-Ratelimit-Remaining-Tokens") != "0" || err != nil || wait <= 0 {
		t.Errorf("a limit of tokens: %d %v %s", res.Status, res.Header, res.Body)
	}
}

func TestFailuresOfTheProviderReturnWhatTheyReserved(t *testing.T) {
	l := newLimitedGateway(t)
	key := l.key(`"rate_limits":[{"type":"requests","unit":"rpd","value":2},{"type":"tokens","unit":"rpd","value":200}]`)
	failing := strings.Replace(oneChat, "sim-1", "sim-1+status=500", 1)
	for range 5 {
		if res := l.chat(key, failing); res.Status != 500 {
			t.Fatalf("a failing provider: %d %s", res.Status, res.Body)
		}
	}
	if res := l.chat(key, `{"model":"sim-1","messages":7}`); res.Status != 400 {
		t.Fatalf("an invalid request: %d %s", res.Status, res.Body)
	}
	for i, want := range []int{200, 200, 429} {
		if res := l.chat(key, oneChat); res.Status != want {
			t.Errorf("request %d after five failures: %d %s", i+1, res.Status, res.Body)
		}
	}
}

func TestRetriesCountOnceForTheKeyAndEachForTheProvider(t *testing.T) {
	l := newLimitedGateway(t)
	l.provider("counted", `"rate_limits":[{"type":"requests","unit":"rpd","value":3}]`)
	key := l.key(`"rate_limits":[{"type":"requests","unit":"rpd","value":2}]`)
	config := func(target string) string {
		return `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@counted","override_params":{"model":"` + target + `"}},{"provider":"@simulator"}]}`
	}
	send := func(target string) gatewaytest.Response {
		return l.Post("/chat/completions", oneChat, "x-gateway-api-key", key, "x-gateway-config", config(target))
	}
	// A request that fails at one provider and is served by another counts once.
	if res := send("sim-1+status=503"); res.Status != 200 || l.reached.Load() != 2 {
		t.Fatalf("a fallback: %d %s, %d attempts", res.Status, res.Body, l.reached.Load())
	}
	if res := send("sim-1"); res.Status != 200 {
		t.Fatalf("the second request: %d %s", res.Status, res.Body)
	}
	if res := send("sim-1"); res.Status != 429 || !strings.Contains(string(res.Body), "this gateway key") {
		t.Errorf("the third request: %d %s", res.Status, res.Body)
	}
}

func TestLimitOfAProviderFallsBackAndOfAKeyDoesNot(t *testing.T) {
	l := newLimitedGateway(t)
	l.provider("scarce", `"rate_limits":[{"type":"requests","unit":"rpd","value":1}]`)
	config := `{"strategy":{"mode":"fallback","on_status_codes":[429]},"targets":[{"provider":"@scarce","retry":{"attempts":3}},{"provider":"@simulator"}]}`
	key := l.key(`"rate_limits":[{"type":"requests","unit":"rpd","value":3}]`)
	for i, want := range []string{"config.targets[0]", "config.targets[1]", "config.targets[1]"} {
		res := l.Post("/chat/completions", oneChat, "x-gateway-api-key", key, "x-gateway-config", config)
		if got := res.Header.Get("X-Gateway-Last-Used-Option-Index"); res.Status != 200 || got != want {
			t.Errorf("request %d: %d by %s, want by %s: %s", i+1, res.Status, got, want, res.Body)
		}
	}
	if l.reached.Load() != 3 {
		t.Errorf("%d attempts reached providers, want 3: a limit is not retried", l.reached.Load())
	}
	res := l.Post("/chat/completions", oneChat, "x-gateway-api-key", key, "x-gateway-config", config)
	if res.Status != 429 || !strings.Contains(string(res.Body), "this gateway key") || l.reached.Load() != 3 {
		t.Errorf("beyond the key's limit: %d %s", res.Status, res.Body)
	}
	other := l.key(`"rate_limits":[]`)
	res = l.chat(other, oneChat, "x-gateway-provider", "@scarce")
	if res.Status != 429 || !strings.Contains(string(res.Body), "the rate limit of the provider scarce is reached: 1 request per day") {
		t.Errorf("the provider without a fallback: %d %s", res.Status, res.Body)
	}
}

func TestBudgetIsNotExceededByConcurrentRequests(t *testing.T) {
	l := newLimitedGateway(t)
	key := l.key(`"usage_limits":{"type":"tokens","credit_limit":1000,"on_budget_end":"stop"}`)
	body := `{"model":"sim-1","max_tokens":100,"messages":[{"role":"user","content":"` + strings.Repeat("word ", 40) + `"}]}`
	var tokens, refused atomic.Int64
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			res := l.chat(key, body)
			var v struct {
				Usage struct {
					Total int64 `json:"total_tokens"`
				}
			}
			json.Unmarshal(res.Body, &v)
			tokens.Add(v.Usage.Total)
			if res.Status == 412 {
				refused.Add(1)
			} else if res.Status != 200 {
				t.Errorf("%d %s", res.Status, res.Body)
			}
		})
	}
	wg.Wait()
	if n := tokens.Load(); n > 1000 || n < 500 || refused.Load() == 0 {
		t.Errorf("%d tokens were used of 1000, %d requests refused", n, refused.Load())
	}
	for range 20 { // what was reserved and not used returns
		l.chat(key, body)
	}
	res := l.chat(key, body)
	if res.Status != 412 || !strings.Contains(string(res.Body), "set a lower limit of output tokens") {
		t.Errorf("at the end of the budget: %d %s", res.Status, res.Body)
	}
}

func TestBudgetIsRefusedAtOnceWhenItIsUsedUp(t *testing.T) {
	l := newLimitedGateway(t)
	key := l.key(`"usage_limits":{"type":"tokens","credit_limit":100}`)
	for i := range 10 {
		res := l.chat(key, oneChat)
		if res.Status == 412 {
			if i < 2 || !strings.Contains(string(res.Body), "the budget of this gateway key is exhausted: 100 tokens without a reset; raise it or wait for the next reset") {
				t.Errorf("request %d: %s", i+1, res.Body)
			}
			return
		}
		if res.Status != 200 {
			t.Fatalf("%d %s", res.Status, res.Body)
		}
	}
	t.Error("ten requests of more than ten tokens each passed a budget of 100")
}

func TestWorkspaceLimitBindsAllItsKeys(t *testing.T) {
	l := newLimitedGateway(t)
	a, b := l.key(`"rate_limits":[]`), l.key(`"rate_limits":[]`)
	mustDo(t, l.Gateway, "PUT", "/workspaces/default", `{"rate_limits":[{"type":"requests","unit":"rpd","value":2}]}`)
	var statuses strings.Builder
	for _, key := range []string{a, b, a, b} {
		statuses.WriteString(fmt.Sprint(l.chat(key, oneChat).Status, " "))
	}
	if statuses.String() != "200 200 429 429 " {
		t.Errorf("statuses %s", statuses.String())
	}
}

// policy makes a policy and returns its id.
func (l *limitedGateway) policy(kind, body string) string {
	l.t.Helper()
	made := mustDo(l.t, l.Gateway, "POST", "/policies/"+kind, body).JSON(l.t)
	return made["id"].(string)
}

func TestPolicyCountsEachGroupApart(t *testing.T) {
	l := newLimitedGateway(t)
	l.policy("rate-limits", `{"name":"per user","type":"requests","unit":"rpd","value":2,"conditions":[{"key":"metadata._environment","value":"prod"}],"group_by":[{"key":"metadata._user"}]}`)
	key := l.key(`"rate_limits":[]`)
	send := func(metadata string) int { return l.chat(key, oneChat, "x-gateway-metadata", metadata).Status }
	for i, tt := range []struct {
		metadata string
		want     int
	}{
		{`{"_environment":"prod","_user":"alice"}`, 200}, {`{"_environment":"prod","_user":"alice"}`, 200}, {`{"_environment":"prod","_user":"alice"}`, 429},
		{`{"_environment":"prod","_user":"bob"}`, 200}, {`{"_environment":"test","_user":"alice"}`, 200}, {`{"_environment":"prod"}`, 200},
	} {
		if got := send(tt.metadata); got != tt.want {
			t.Errorf("request %d with %s: %d, want %d", i+1, tt.metadata, got, tt.want)
		}
	}
}

func TestBudgetOfAPolicySurvivesARestart(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	start := func() *limitedGateway {
		l := &limitedGateway{t: t}
		l.Gateway = gatewaytest.New(t, gatewaytest.Options{Settings: "log: {level: info}\n", MasterKey: "the master key of a test of limits", Data: data})
		return l
	}
	l := start()
	l.policy("usage-limits", `{"name":"tokens","type":"tokens","credit_limit":200,"conditions":[{"key":"model","value":"sim-1"}],"group_by":[{"key":"api_key"}]}`)
	key := l.key(`"rate_limits":[]`)
	used, n := 0.0, 0
	for ; n < 20; n++ {
		res := l.chat(key, oneChat)
		if res.Status == 412 {
			break
		}
		used += res.JSON(t)["usage"].(map[string]any)["total_tokens"].(float64)
	}
	if n == 0 || n == 20 || used < 200 {
		t.Fatalf("%d requests used %v tokens of a budget of 200", n, used)
	}
	if res := l.chat(key, strings.Replace(oneChat, "sim-1", "sim-2", 1)); res.Status != 200 {
		t.Errorf("a model without the policy: %d %s", res.Status, res.Body)
	}
	l.Stop()
	l = start()
	if res := l.chat(key, oneChat); res.Status != 412 || !strings.Contains(string(res.Body), "the budget of the policy tokens is exhausted") {
		t.Errorf("after a restart: %d %s", res.Status, res.Body)
	}
}

func TestLimitOfAnIntegrationBindsItsProviders(t *testing.T) {
	l := newLimitedGateway(t)
	l.provider("first", `"rate_limits":[]`)
	mustDo(t, l.Gateway, "POST", "/providers", `{"name":"second","slug":"second","integration_id":"first","workspace_id":"default"}`)
	mustDo(t, l.Gateway, "PUT", "/integrations/first/workspaces", `{"workspaces":[{"id":"default","enabled":true,"rate_limits":[{"type":"requests","unit":"rpd","value":2}]}]}`)
	key := l.key(`"rate_limits":[]`)
	var statuses strings.Builder
	for _, slug := range []string{"@first", "@second", "@first", "@second", "@simulator"} {
		statuses.WriteString(fmt.Sprint(l.Post("/chat/completions", oneChat, "x-gateway-api-key", key, "x-gateway-provider", slug).Status, " "))
	}
	if statuses.String() != "200 200 429 429 200 " {
		t.Errorf("statuses %s", statuses.String())
	}
}

func TestLimitsAreReadExplainedAndRecorded(t *testing.T) {
	l := newLimitedGateway(t)
	if left := time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)); left < 3*time.Minute {
		time.Sleep(left) // counters of the hour begin again in the middle of the test otherwise
	}
	l.provider("bound", `"rate_limits":[{"type":"requests","unit":"rph","value":5}]`)
	mustDo(t, l.Gateway, "PUT", "/integrations/bound/workspaces", `{"workspaces":[{"id":"default","enabled":true,"rate_limits":[{"type":"requests","unit":"rpd","value":50}]}]}`)
	policy := mustDo(t, l.Gateway, "POST", "/policies/rate-limits", `{"workspace_id":"default","conditions":[{"key":"workspace_id","value":"*"}],"group_by":[{"key":"workspace_id"}],"type":"requests","unit":"rpw","value":70}`).JSON(t)
	id, _ := policy["id"].(string)
	key := l.key(`"rate_limits":[{"type":"requests","unit":"rpd","value":3},{"type":"tokens","unit":"rpd","value":100000}],"usage_limits":{"type":"cost","credit_limit":4}`)
	res := l.Post("/chat/completions", oneChat, "x-gateway-api-key", key, "x-gateway-provider", "@bound")
	if res.Status != 200 {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	tokens := res.JSON(t)["usage"].(map[string]any)["total_tokens"].(float64)

	own := l.Get("/limits", "x-gateway-api-key", key)
	list, _ := own.JSON(t)["data"].([]any)
	if own.Status != 200 || len(list) != 3 {
		t.Fatalf("GET /limits: %d %s", own.Status, own.Body)
	}
	for i, want := range []string{"requests rpd 3 1", fmt.Sprint("tokens rpd 100000 ", tokens), "cost <nil> 4 "} {
		s := list[i].(map[string]any)
		if got := fmt.Sprintf("%v %v %.0f %v", s["type"], s["unit"], s["limit"], s["used"]); !strings.HasPrefix(got, want) || s["reserved"] != 0.0 || s["used"] == 0.0 {
			t.Errorf("limit %d is %s, want %s: %v", i, got, want, s)
		}
	}
	bound, _ := l.Get("/limits?owner=provider&id=bound&workspace_id=default").JSON(t)["data"].([]any)
	if len(bound) != 2 || bound[0].(map[string]any)["unit"] != "rph" || bound[1].(map[string]any)["unit"] != "rpd" {
		t.Errorf("the limits of a provider are %v, want its own and that of its integration", bound)
	}
	for i, at := range map[int]any{0: list[0], 1: bound[0]} { // windows of a day and of an hour
		window := []time.Duration{24 * time.Hour, time.Hour}[i]
		text, _ := at.(map[string]any)["reset_at"].(string)
		reset, err := time.Parse(time.RFC3339, text)
		if left := time.Until(reset); err != nil || left < -time.Minute || left > window || !reset.Truncate(window).Equal(reset) {
			t.Errorf("the limit %v starts again at %q (%v), want the end of a window of %v", at, text, err, window)
		}
	}
	for path, want := range map[string]string{
		"/limits?owner=provider&id=bound&workspace_id=default":         `"unit":"rph","limit":5,"used":1,"reserved":0,"remaining":4`,
		"/limits?owner=integration&id=bound&workspace_id=default":      `"owner":"grant"`,
		"/limits?owner=integration&id=bound":                           `"unit":"rpd","limit":50,"used":1`,
		"/limits?owner=integration&id=other":                           `not found`,
		"/limits?owner=policy&id=" + id:                                `"value_key":"workspace_id:` + store.DefaultWorkspace + `","type":"requests","unit":"rpw","limit":70,"used":1`,
		"/limits?owner=policy&id=0197bb0d-3f2e-7000-8000-000000000000": `not found`,
		"/limits?owner=policy":                                         `id is required`,
		"/limits?owner=workspace&id=default":                           `"data":[]`,
		"/limits?owner=workspace":                                      `id is required`,
	} {
		if res := l.Get(path); !strings.Contains(string(res.Body), want) {
			t.Errorf("%s: %d %s", path, res.Status, res.Body)
		}
	}
	for _, path := range []string{"/limits?owner=provider&id=bound", "/limits?owner=integration&id=bound", "/limits?owner=policy&id=" + id} {
		if res := l.Get(path, "x-gateway-api-key", key); res.Status != 403 {
			t.Errorf("%s: a key without the scope reads the limits: %d %s", path, res.Status, res.Body)
		}
	}

	explained := l.Post("/explain", `{"request":{"headers":{"x-gateway-provider":"@bound"},"body":`+oneChat+`}}`, "x-gateway-api-key", key)
	attempt, _ := explained.JSON(t)["attempt"].(map[string]any)
	limits, _ := attempt["limits"].([]any)
	if len(limits) != 6 || !strings.Contains(string(explained.Body), `{"holder":"provider"`) || limits[0].(map[string]any)["claimed"] != 1.0 || limits[0].(map[string]any)["used"] != 1.0 {
		t.Errorf("explained: %s", explained.Body)
	}

	recorded, _ := l.Entry(res)["limits"].([]any)
	if len(recorded) != 6 {
		t.Fatalf("recorded %v", recorded)
	}
	for _, v := range recorded {
		if u := v.(map[string]any); u["type"] == "tokens" && (u["used"] != tokens || u["reserved"].(float64) <= tokens || u["refused"] != false) {
			t.Errorf("recorded %v, want %v tokens used", u, tokens)
		}
	}
	l.chat(key, oneChat)
	l.chat(key, oneChat)
	if e := l.Entry(l.chat(key, oneChat)); !strings.Contains(fmt.Sprint(e["limits"]), "refused:true") {
		t.Errorf("a refusal is recorded with %v", e["limits"])
	}
	mustDo(t, l.Gateway, "PUT", "/workspaces/default", `{"rate_limits":[{"type":"requests","unit":"rpd","value":90}]}`)
	if res := l.Get("/limits?owner=workspace&id=default"); !strings.Contains(string(res.Body), `"unit":"rpd","limit":90`) {
		t.Errorf("the limit of a workspace: %d %s", res.Status, res.Body)
	}
}

// TestBudgetThatStopsSeesTheLargestResponse sends requests that hide how long their
// response may be.
func TestBudgetThatStopsSeesTheLargestResponse(t *testing.T) {
	l := newLimitedGateway(t)
	key := l.key(`"usage_limits":{"type":"tokens","credit_limit":1000,"on_budget_end":"stop"}`)
	const messages = `"messages":[{"role":"user","content":"hello"}]`
	for name, body := range map[string]string{
		"two limits":          `{"model":"sim-1","max_tokens":1,"max_completion_tokens":5000,` + messages + `}`,
		"two limits, swapped": `{"model":"sim-1","max_tokens":5000,"max_completion_tokens":1,` + messages + `}`,
		"many responses":      `{"model":"sim-1","max_tokens":100,"n":20,` + messages + `}`,
		"a product of 2^64":   `{"model":"sim-1","max_tokens":4611686018427387904,"n":4,` + messages + `}`,
		"no limit":            `{"model":"sim-1",` + messages + `}`,
	} {
		if res := l.chat(key, body); res.Status != 412 || !strings.Contains(string(res.Body), "has 1000 tokens left") {
			t.Errorf("%s: %d %s", name, res.Status, res.Body)
		}
	}
	config := `{"provider":"@simulator","override_params":{"max_tokens":5000}}`
	if res := l.Post("/chat/completions", oneChat, "x-gateway-api-key", key, "x-gateway-config", config); res.Status != 412 {
		t.Errorf("a limit raised by the config: %d %s", res.Status, res.Body)
	}
	if l.reached.Load() != 0 {
		t.Errorf("%d requests reached the provider", l.reached.Load())
	}
	if res := l.chat(key, oneChat); res.Status != 200 {
		t.Errorf("a request that fits: %d %s", res.Status, res.Body)
	}
}

func TestReadingNeedsNoBudget(t *testing.T) {
	l := newLimitedGateway(t)
	key := l.key(`"usage_limits":{"type":"tokens","credit_limit":100}`)
	for range 10 {
		l.chat(key, oneChat)
	}
	if res := l.chat(key, oneChat); res.Status != 412 {
		t.Fatalf("the budget is not used up: %d %s", res.Status, res.Body)
	}
	for _, path := range []string{"/files", "/batches", "/fine_tuning/jobs/x", "/responses/resp_x"} {
		if res := l.Get(path, "x-gateway-api-key", key, "x-gateway-provider", "@simulator"); res.Status == 412 || res.Status == 429 {
			t.Errorf("GET %s: %d %s", path, res.Status, res.Body)
		}
	}
}

func TestPolicyOfAModelBindsAConfigThatChoosesIt(t *testing.T) {
	l := newLimitedGateway(t)
	l.policy("rate-limits", `{"name":"costly","type":"requests","unit":"rpd","value":2,"conditions":[{"key":"model","value":"sim-costly"}],"group_by":[{"key":"api_key"}]}`)
	key := l.key(`"rate_limits":[]`)
	override := `{"provider":"@simulator","override_params":{"model":"sim-costly"}}`
	second := `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@simulator","override_params":{"model":"sim-1+status=503"}},` + override + `]}`
	var statuses strings.Builder
	for _, config := range []string{override, second, override, second} {
		statuses.WriteString(fmt.Sprint(l.Post("/chat/completions", oneChat, "x-gateway-api-key", key, "x-gateway-config", config).Status, " "))
	}
	if statuses.String() != "200 200 429 429 " {
		t.Errorf("statuses %s", statuses.String())
	}
	if res := l.chat(key, oneChat); res.Status != 200 {
		t.Errorf("another model: %d %s", res.Status, res.Body)
	}
}
