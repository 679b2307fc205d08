package dataplane_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/testing/gatewaytest"
)

// longSystem is a system prompt that providers cache.
var longSystem = strings.Repeat("You know the rules of this shop. ", 200)

const promptCacheModel = "claude-3-5-haiku-20241022" // 0.8 dollars a million, 0.08 from the cache, 1 into it

func newPromptCache(t *testing.T) (*scripted, *gatewaytest.Gateway) {
	t.Helper()
	u := newScripted(t)
	return u, gatewaytest.New(t, gatewaytest.Options{Upstream: u, Settings: pairSettings + `
  - {slug: claude, provider: anthropic, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
`})
}

// turns is a body of the messages dialect with this system prompt and this last
// turn.
func turns(system, more string) string {
	return fmt.Sprintf(`{"model":%q, "max_tokens":100,"system":%s,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}, {"role":"user","content":%s}]}`, promptCacheModel, system, more)
}

func quotedText(s string) string { b, _ := json.Marshal(s); return string(b) }

// sentBody sends a body under a config and returns what the provider got.
func sentBody(t *testing.T, u *scripted, g *gatewaytest.Gateway, path, config, body, usage string) (string, gatewaytest.Response) {
	t.Helper()
	heads := begin(t, g.Request("POST", path, body, "x-gateway-provider", "", "x-gateway-config", config))
	c := u.next()
	c.w.Header().Set("Content-Type", "application/json")
	c.send(`{"id":"m","type":"message","role":"assistant","model":"` + promptCacheModel + `","content":[{"type":"text","text":"yes"}],"stop_reason":"end_turn","usage":` + usage + `}`)
	c.finish()
	res := receive(t, heads, "the head")
	res.Body.Close()
	return string(c.Body), gatewaytest.Response{Status: res.StatusCode, Header: res.Header}
}

const cachedUsage = `{"input_tokens":10,"cache_read_input_tokens":1000,"cache_creation_input_tokens":0,"output_tokens":1}`

func TestThePrefixIsMarkedWhereItPays(t *testing.T) {
	t.Parallel()
	u, g := newPromptCache(t)
	const on = `{"provider":"@claude","prompt_cache":true}`
	const mark = `"cache_control":{"type":"ephemeral"}`
	system := quotedText(longSystem)
	blocks := `[{"type":"text","text":"a"},{"type":"text","text":` + system + `}]`
	tools := `"tools":[{"name":"a","input_schema":{"type":"object"}},{"name":"b","description":` + system + `,"input_schema":{"type":"object"}}]`
	deferred := `"tools":[{"name":"a","input_schema":{"type":"object"}},{"name":"b","description":` + system + `,"input_schema":{"type":"object"}},{"name":"c","defer_loading":true,"input_schema":{"type":"object"}},{"type":"mcp_toolset","mcp_server_name":"d","default_config":{"defer_loading":true}}]`
	hidden := `"tools":[{"name":"c","description":` + system + `,"defer_loading":true,"input_schema":{"type":"object"}}]`
	short := turns(`"be brief"`, `"more"`)
	long := turns(system, `"more"`)
	history := strings.Replace(turns(`"be brief"`, `"more"`), `"content":"hi"`, `"content":`+system, 1)
	first := fmt.Sprintf(`{"model":%q,"max_tokens":100,"system":%s,"messages":[{"role":"user","content":"hi"}]}`, promptCacheModel, system)
	for _, tt := range []struct{ name, config, body, want string }{
		{"off", `{"provider":"@claude"}`, long, long},
		{"system and the last turn", on, long, strings.NewReplacer(
			`"system":`+system, `"system":[{"type":"text","text":`+system+`,`+mark+`}]`,
			`"hello"}, {"role":"user","content":"more"`, `"hello"},{"role":"user","content":[{"type":"text","text":"more",`+mark+`}]`).Replace(long)},
		{"the first turn", on, first, strings.Replace(first, `"system":`+system, `"system":[{"type":"text","text":`+system+`,`+mark+`}]`, 1)},
		{"blocks", on, strings.Replace(first, system, blocks, 1), strings.Replace(first, system, strings.Replace(blocks, `}]`, `,`+mark+`}]`, 1), 1)},
		{"tools without a system prompt", on, strings.Replace(first, `"system":`+system, tools, 1), strings.Replace(first, `"system":`+system, strings.TrimSuffix(tools, `}]`)+`,`+mark+`}]`, 1)},
		{"deferred tools", on, strings.Replace(first, `"system":`+system, deferred, 1), strings.Replace(first, `"system":`+system, strings.Replace(deferred, `"input_schema":{"type":"object"}},{"name":"c"`, `"input_schema":{"type":"object"},`+mark+`},{"name":"c"`, 1), 1)},
		{"deferred tools alone", on, strings.Replace(first, `"system":`+system, hidden, 1), strings.Replace(first, `"system":`+system, hidden, 1)},
		{"tools that are only searched", on, strings.Replace(short, `"system":"be brief"`, hidden, 1), strings.Replace(short, `"system":"be brief"`, hidden, 1)},
		{"a long history", on, history, strings.Replace(history, `"hello"}, {"role":"user","content":"more"`, `"hello"},{"role":"user","content":[{"type":"text","text":"more",`+mark+`}]`, 1)},
		{"a mark of the client", on, strings.Replace(long, `"content":"hi"`, `"content":[{"type":"text","text":"hi",`+mark+`}]`, 1), strings.Replace(long, `"content":"hi"`, `"content":[{"type":"text","text":"hi",`+mark+`}]`, 1)},
		{"short", on, turns(`"be brief"`, `"more"`), turns(`"be brief"`, `"more"`)},
		{"a model without a price of cached tokens", on, strings.Replace(long, promptCacheModel, "claude-2", 1), strings.Replace(long, promptCacheModel, "claude-2", 1)},
		{"a thinking block at the end", on, turns(`"be brief"`, `[{"type":"text","text":`+system+`},{"type":"search_result"}]`), turns(`"be brief"`, `[{"type":"text","text":`+system+`},{"type":"search_result"}]`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, res := sentBody(t, u, g, "/messages", tt.config, tt.body, cachedUsage)
			if got != tt.want {
				t.Errorf("sent    %s\nwant %s", got, tt.want)
			}
			params := strings.Join(res.Header.Values("x-gateway-params"), ",")
			if told, marked := strings.Contains(params, "cache_control"), tt.want != tt.body; told != marked {
				t.Errorf("the parameters are %q, want a mark: %t", params, marked)
			}
		})
	}
}

func TestTheLogSaysWhatThePromptCacheSaved(t *testing.T) {
	t.Parallel()
	u, g := newPromptCache(t)
	chat := fmt.Sprintf(`{"model":%q,"messages":[{"role":"system","content":%s},{"role":"user","content":"hi"}]}`, promptCacheModel, quotedText(longSystem))
	for _, tt := range []struct{ name, config, usage, want string }{
		{"read", `{"provider":"@claude","prompt_cache":true}`, cachedUsage, "1000 tokens read, 0 written, 0.000720 dollars saved"},
		{"written", `{"provider":"@claude","prompt_cache":true}`, `{"input_tokens":10,"cache_read_input_tokens":0,"cache_creation_input_tokens":1000,"output_tokens":1}`, "0 tokens read, 1000 written, 0.000200 dollars more than without"},
		{"sticky", `{"strategy":{"mode":"loadbalance","sticky":{"enabled":true,"hash_fields":["prefix"]}},"targets":[{"provider":"@claude"},{"provider":"@claude"}]}`, cachedUsage, "0.000720 dollars saved"},
		{"off", `{"provider":"@claude"}`, cachedUsage, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body, res := sentBody(t, u, g, "/chat/completions", tt.config, chat, tt.usage)
			got := fmt.Sprint(g.Entry(res)["decisions"])
			if !strings.Contains(got, tt.want) || tt.want == "" && strings.Contains(got, "prompt cache") {
				t.Errorf("decisions are %s, want %q", got, tt.want)
			}
			marked := strings.Contains(tt.config, "prompt_cache")
			params := strings.Join(res.Header.Values("x-gateway-params"), ",")
			if strings.Contains(body, "cache_control") != marked || strings.Contains(params, `cache_control;adapted="set on system"`) != marked {
				t.Errorf("sent %.200s… with params %s", body, params)
			}
		})
	}
}

func TestExplainShowsTheMarkedPrefix(t *testing.T) {
	t.Parallel()
	_, g := newPromptCache(t)
	e := explained(t, g, `{"provider":"@claude","prompt_cache":true}`, "", fmt.Sprintf(`{"model":%q,"messages":[{"role":"system","content":%s},{"role":"user","content":"hi"}]}`, promptCacheModel, quotedText(longSystem)))
	all, _ := json.Marshal(e)
	for _, want := range []string{`"cache_control":{"type":"ephemeral"}`, "cache_control;adapted"} {
		if !strings.Contains(string(all), want) {
			t.Errorf("explain lacks %s: %.600s", want, all)
		}
	}
}

func TestPassThroughIsNeverMarked(t *testing.T) {
	t.Parallel()
	u, g := newPromptCache(t)
	body := turns(quotedText(longSystem), `"more"`)
	got, _ := sentBody(t, u, g, "/messages/of-a-later-version", `{"provider":"@claude","prompt_cache":true}`, body, cachedUsage)
	if got != body {
		t.Errorf("sent %s", got)
	}
}

// The model costs 0.80 dollars a million tokens, 0.08 from the cache and 1.00 into it.
func TestExplainSaysWhatThePromptCacheSaves(t *testing.T) {
	t.Parallel()
	u, g := newPromptCache(t)
	system := quotedText(longSystem)
	body := fmt.Sprintf(`{"model":%q,"max_tokens":100,"system":%s,"messages":[{"role":"user","content":"hi"}]}`, promptCacheModel, system)
	const marks = `{"provider":"@claude","prompt_cache":true}`
	const sticky = `{"strategy":{"mode":"loadbalance","sticky":{"enabled":true,"hash_fields":["prefix"]}},"targets":[{"provider":"@claude"}]}`
	explain := func(config, body string, headers ...string) any {
		t.Helper()
		q := fmt.Sprintf(`{"request":{"path":"/v1/messages","body":%s},"config":%s}`, body, config)
		return g.Post("/explain", q, append([]string{"x-gateway-provider", ""}, headers...)...).JSON(t)["prompt_cache"]
	}
	prefix := float64((len(system) + 3) / 4)
	turn := float64((len(system) + len(promptCacheModel) + len(`{"role":"user","content":"hi"}`) + 3) / 4) // of the sticky prefix
	plan := func(target string, tokens, saved float64) any {
		return map[string]any{
			"target": target, "prefix_tokens": tokens, "saved_in_30_days": saved,
			"saved_if_read": roundTo(tokens * 0.72e-6), "added_if_written": roundTo(tokens * 0.2e-6),
		}
	}
	saved := g.Post("/configs", `{"name":"help","config":`+marks+`}`)
	slug := quotedText(saved.JSON(t)["data"].(map[string]any)["slug"].(string))
	for _, config := range []string{marks, sticky} {
		_, res := sentBody(t, u, g, "/messages", config, body, cachedUsage)
		g.Entry(res)
	}

	unpriced := strings.Replace(body, promptCacheModel, "no-such-model", 1)
	other := g.Post("/api-keys/workspace/service", `{"name":"other","workspace_id":"default","scopes":["completions.write"]}`).JSON(t)["key"].(string)
	for _, tt := range []struct {
		name      string
		got, want any
	}{
		{name: "marks", got: explain(marks, body), want: plan("config", prefix, 0.00144)},
		{name: "prefix", got: explain(sticky, body), want: plan("config.targets[0]", turn, 0.00144)},
		{name: "a saved config", got: explain(slug, body), want: plan("config", prefix, 0)},
		{name: "another key", got: explain(marks, body, "x-gateway-api-key", other), want: plan("config", prefix, 0)},
		{name: "no help", got: explain(`{"provider":"@claude"}`, body)},
		{name: "a short prefix", got: explain(marks, strings.Replace(body, system, `"brief"`, 1))},
		{name: "a model without a price", got: explain(sticky, unpriced), want: map[string]any{
			"target": "config.targets[0]", "prefix_tokens": float64((len(system) + len("no-such-model") + len(`{"role":"user","content":"hi"}`) + 3) / 4),
			"saved_in_30_days": 0.00144, "saved_if_read": nil, "added_if_written": nil,
		}},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// roundTo returns dollars in whole nano-dollars.
func roundTo(dollars float64) float64 { return math.Round(dollars*1e9) / 1e9 }
