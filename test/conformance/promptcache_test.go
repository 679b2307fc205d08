package conformance

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
)

// A million tokens of this model cost 0.80 dollars, 0.08 from the cache and 1.00 into it.
const promptCacheModel = "claude-3-5-haiku-20241022"

// cachedTurn is a body of the Messages API with this system prompt.
func cachedTurn(system string) string {
	return fmt.Sprintf(`{"model":%q,"max_tokens":100,"system":%q,"messages":[{"role":"user","content":"hi"}]}`, promptCacheModel, system)
}

func TestPromptCachesOfProvidersSave(t *testing.T) {
	g := launchFor(t, "version: 1\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
	const used = `{"input_tokens":10,"cache_read_input_tokens":%d,"cache_creation_input_tokens":%d,"output_tokens":1}`
	replying := func(read, written int) *provider {
		return newProvider(t, says(200, "application/json", `{"id":"m","type":"message","role":"assistant","model":"`+promptCacheModel+`","content":[{"type":"text","text":"yes"}],"stop_reason":"end_turn","usage":`+fmt.Sprintf(used, read, written)+`}`))
	}
	config := func(p *provider, more ...string) string {
		return node(append([]string{`"provider":"anthropic"`, `"api_key":"` + credential + `"`, `"custom_host":"` + p.url + `"`}, more...)...)
	}
	const mark, on = `"cache_control":{"type":"ephemeral"}`, `"prompt_cache":true`
	long := strings.Repeat("You know the rules of this shop. ", 200)
	send := func(t *testing.T, config, body string) response {
		t.Helper()
		return g.do(t, "POST", "/v1/messages", body, "x-gateway-api-key", bootstrapKey, "x-gateway-config", config).wantOK(t)
	}
	for _, tt := range []struct {
		name, more, body string
		marked           bool
	}{
		{"a long system prompt", on, cachedTurn(long), true},
		{"without the property", `"retry":{"attempts":1}`, cachedTurn(long), false},
		{"a prefix of less than 4 KB", on, cachedTurn(long[:4000]), false},
		{"a prefix of 4 KB", on, cachedTurn(long[:4200]), true},
		{"a model without a price for cached tokens", on, strings.Replace(cachedTurn(long), promptCacheModel, "claude-2", 1), false},
	} {
		prove(t, "M-210", tt.name, func(t *testing.T) {
			p := replying(0, 0)
			got := send(t, config(p, tt.more), tt.body)
			announced := strings.Join(got.header.Values("x-gateway-params"), ",")
			if sent := string(p.only(t).body); strings.Contains(sent, mark) != tt.marked || !tt.marked && sent != tt.body || strings.Contains(announced, "cache_control") != tt.marked {
				t.Errorf("sent %.80s… with marks %t, announced %q; want marks %t", sent, strings.Contains(sent, mark), announced, tt.marked)
			}
		})
	}
	prove(t, "M-210", "marks of the client stay as they are", func(t *testing.T) {
		p := replying(0, 0)
		body := strings.Replace(cachedTurn(long), `"content":"hi"`, `"content":[{"type":"text","text":"hi",`+mark+`}]`, 1)
		send(t, config(p, on), body)
		if sent := string(p.only(t).body); sent != body {
			t.Errorf("sent %s", sent)
		}
	})
	prove(t, "M-210", "a request that counts tokens is not marked", func(t *testing.T) {
		p := newProvider(t, says(200, "application/json", `{"input_tokens":1400}`))
		g.do(t, "POST", "/v1/messages/count_tokens", cachedTurn(long), "x-gateway-api-key", bootstrapKey, "x-gateway-config", config(p, on)).wantOK(t)
		if sent := string(p.only(t).body); sent != cachedTurn(long) {
			t.Errorf("sent %.200s…", sent)
		}
	})
	for _, tt := range []struct {
		read, written int
		text          string
	}{
		{1000, 0, "1000 tokens read, 0 written, 0.000720 dollars saved"},
		{0, 1000, "0 tokens read, 1000 written, 0.000200 dollars more than without"},
	} {
		prove(t, "M-210", fmt.Sprintf("%d tokens read and %d written", tt.read, tt.written), func(t *testing.T) {
			before := g.promptCacheSaved(t)
			e := g.entry(t, send(t, config(replying(tt.read, tt.written), on), cachedTurn(long)))
			if text := jsonText(e["decisions"]); !strings.Contains(text, tt.text) {
				t.Errorf("decisions are %s, want %q", text, tt.text)
			}
			cents := float64(tt.read)*0.72e-4 - float64(tt.written)*0.2e-4
			if saved, _ := at(e, "saved_cost", "prompt_cache").(json.Number).Float64(); math.Abs(saved-cents) > 1e-7 {
				t.Errorf("the entry says that %v cents were saved, want %v", saved, cents)
			}
			if saved := g.promptCacheSaved(t) - before; math.Abs(saved-cents) > 1e-7 {
				t.Errorf("analytics say that %v cents were saved, want %v", saved, cents)
			}
		})
	}
	prove(t, "M-210", "explain says what a hit will save", func(t *testing.T) {
		got := g.do(t, "POST", "/v1/explain", fmt.Sprintf(`{"request":{"path":"/v1/messages","body":%s},"config":%s}`, cachedTurn(long), config(replying(0, 0), on)), "x-gateway-api-key", bootstrapKey).wantOK(t).object(t)
		tokens := float64((len(long) + 2 + 3) / 4) // of the system prompt with its quotes
		for name, want := range map[string]float64{"prefix_tokens": tokens, "saved_if_read": tokens * 0.72e-6, "added_if_written": tokens * 0.2e-6, "saved_in_30_days": 0.00052} {
			n, _ := at(got, "prompt_cache", name).(json.Number)
			if v, err := n.Float64(); err != nil || math.Abs(v-want) > 1e-8 {
				t.Errorf("%s = %s, want %v", name, n, want)
			}
		}
	})
}

// promptCacheSaved returns what analytics say that prompt caches have saved, in cents.
func (g *gateway) promptCacheSaved(t *testing.T) float64 {
	t.Helper()
	summary := g.as(t, bootstrapKey, "GET", "/v1/analytics/summary/cache", "").wantOK(t).object(t)
	n, _ := at(summary, "summary", "prompt_cache_saved_cost").(json.Number)
	v, err := n.Float64()
	if err != nil {
		t.Fatalf("%v: %v", summary, err)
	}
	return v
}
