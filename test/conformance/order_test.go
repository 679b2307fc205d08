package conformance

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestOneSettingWins proves the order in which settings count when several
// places give them: a config before the headers that name a provider, a target
// before the headers that add to any config, those before the root, and the
// request's own config before the default of its key. Timeouts have their cases
// in TestTimeoutsOfConfigs, strict compliance in TestConfigsNameProviders.
func TestOneSettingWins(t *testing.T) {
	g, stored := start(t)
	chat := modelRoutes[0]
	prove(t, "S-436", "the provider and credential of a config before those of the headers", func(t *testing.T) {
		p := newProvider(t, nil)
		for _, config := range []string{leaf(p), tree(single, leaf(p))} {
			p.forget()
			stored.forget()
			g.ask(t, config, "x-gateway-provider", "@stored", "x-gateway-virtual-key", "native", "Authorization", "Bearer of-the-client").wantOK(t)
			if auth := p.only(t).header.Get("Authorization"); auth != "Bearer "+credential {
				t.Errorf("Authorization at the provider = %q, want the config's credential", auth)
			}
			stored.wantNoRequests(t)
		}
	})
	prove(t, "S-436", "a provider of a config without a credential takes the client's", func(t *testing.T) {
		p := newProvider(t, nil)
		bare := node(`"provider":"openai-compatible"`, `"custom_host":"`+p.url+`"`)
		for _, config := range []string{bare, tree(single, bare)} {
			p.forget()
			g.ask(t, config, "Authorization", "Bearer of-the-client").wantOK(t)
			if auth := p.only(t).header.Get("Authorization"); auth != "Bearer of-the-client" {
				t.Errorf("Authorization at the provider = %q, want the client's", auth)
			}
		}
	})
	prove(t, "S-436", "the headers' provider where the config names none", func(t *testing.T) {
		p := newProvider(t, nil)
		g.do(t, "POST", chat.path, chat.body, to(p, "x-gateway-config", `{"override_params":{"user":"u"},"retry":{"attempts":1}}`)...).wantOK(t)
		in := p.only(t)
		if in.field(t, "user") != `"u"` || in.header.Get("Authorization") != "Bearer "+credential {
			t.Errorf("the provider got %s with Authorization %q", in.body, in.header.Get("Authorization"))
		}
	})
	prove(t, "S-436", "the provider's header before that of the virtual key", func(t *testing.T) {
		p := newProvider(t, nil)
		stored.forget()
		g.do(t, "POST", chat.path, chat.body, to(p, "x-gateway-virtual-key", "stored")...).wantOK(t)
		p.only(t)
		stored.wantNoRequests(t)
	})
	prove(t, "S-436", "a target takes no provider from the headers", func(t *testing.T) {
		p := newProvider(t, nil)
		g.do(t, "POST", chat.path, chat.body, to(p, "x-gateway-config", tree(single, `{"retry":{"attempts":1}}`))...).refused(t, http.StatusBadRequest)
		p.wantNoRequests(t)
	})
	prove(t, "S-436 S-036 S-131", "custom host: target, then header, then root", func(t *testing.T) {
		p := fleet(t, nil, nil, nil)
		bare := node(`"provider":"openai-compatible"`, `"api_key":"k"`)
		host := func(i int) string { return `"custom_host":"` + p[i].url + `"` }
		header := []string{"x-gateway-custom-host", p[1].url}
		for _, tt := range []struct {
			config string
			header []string
			want   int
		}{
			{with(tree(single, with(bare, host(0))), host(2)), header, 0},
			{with(tree(single, bare), host(2)), header, 1},
			{with(tree(single, bare), host(2)), nil, 2},
			{with(tree(single, with(bare, host(0))), host(2)), nil, 0},
			{with(bare, host(2)), header, 1},
		} {
			for _, one := range p {
				one.forget()
			}
			g.ask(t, tt.config, tt.header...).wantOK(t)
			for i, one := range p {
				if n := one.hits(); n != 0 && i != tt.want || n != 1 && i == tt.want {
					t.Errorf("%s with %v: host %d was called %d times, want host %d once", tt.config, tt.header, i, n, tt.want)
				}
			}
		}
	})
	prove(t, "S-436 S-035 S-131", "forwarded headers: target, then header, then root", func(t *testing.T) {
		p := newProvider(t, nil)
		list := func(name string) string { return `"forward_headers":["` + name + `"]` }
		for _, tt := range []struct {
			config, header string
			want           string
		}{
			{with(tree(single, leaf(p, list("X-Of-Target"))), list("X-Of-Root")), "X-Of-Header", "X-Of-Target"},
			{with(tree(single, leaf(p)), list("X-Of-Root")), "X-Of-Header", "X-Of-Header"},
			{with(tree(single, leaf(p)), list("X-Of-Root")), "", "X-Of-Root"},
			{with(tree(single, leaf(p, `"forward_headers":[]`)), list("X-Of-Root")), "", ""},
			{leaf(p, list("X-Of-Root")), "X-Of-Header", "X-Of-Header"},
		} {
			p.forget()
			header := []string{"X-Of-Target", "1", "X-Of-Header", "1", "X-Of-Root", "1"}
			if tt.header != "" {
				header = append(header, "x-gateway-forward-headers", tt.header)
			}
			g.ask(t, tt.config, header...).wantOK(t)
			in := p.only(t)
			for _, name := range []string{"X-Of-Target", "X-Of-Header", "X-Of-Root"} {
				if _, arrived := in.line(name); arrived != (name == tt.want) {
					t.Errorf("%s with %q: %s arrived: %t, want %q alone", tt.config, tt.header, name, arrived, tt.want)
				}
			}
		}
	})
	prove(t, "S-436", "the request before defaults, and a target's defaults before the root's", func(t *testing.T) {
		p := newProvider(t, nil)
		body := `{"model":"m","messages":[{"role":"user","content":"x"}],"temperature":2}`
		g.do(t, "POST", chat.path, body, "x-gateway-api-key", bootstrapKey, "x-gateway-config",
			with(tree(single, leaf(p, `"default_params":{"temperature":1,"seed":1}`)), `"default_params":{"seed":0,"user":"root"}`)).wantOK(t)
		in := p.only(t)
		for name, want := range map[string]string{"temperature": "2", "seed": "1", "user": `"root"`} {
			if got := in.field(t, name); got != want {
				t.Errorf("%s at the provider = %s, want %s", name, got, want)
			}
		}
	})
	prove(t, "S-436 S-088", "override before the request", func(t *testing.T) {
		p := newProvider(t, nil)
		body := `{"model":"of-the-request","messages":[{"role":"user","content":"x"}],"temperature":2,"seed":12345678901234567890}`
		g.do(t, "POST", chat.path, body, "x-gateway-api-key", bootstrapKey, "x-gateway-config",
			leaf(p, `"override_params":{"model":"m-9","temperature":0.25,"max_tokens":7,"own":{"deep":[1.0]}}`)).wantOK(t)
		in := p.only(t)
		for name, want := range map[string]string{"model": `"m-9"`, "temperature": "0.25", "max_tokens": "7", "own": `{"deep":[1.0]}`, "seed": "12345678901234567890"} {
			if got := in.field(t, name); got != want {
				t.Errorf("%s at the provider = %s, want %s", name, got, want)
			}
		}
	})
}

func TestOverridesAreOfEachTarget(t *testing.T) {
	g, _ := start(t)
	prove(t, "S-089", "two targets of a fallback", func(t *testing.T) {
		p := fleet(t, withStatuses(500), nil)
		got := g.ask(t, tree(fallback, leaf(p[0], `"override_params":{"model":"m-a"}`), leaf(p[1], `"override_params":{"model":"m-b"}`))).wantOK(t)
		if a, b := p[0].only(t).field(t, "model"), p[1].only(t).field(t, "model"); a != `"m-a"` || b != `"m-b"` {
			t.Errorf("the targets got the models %s and %s", a, b)
		}
		if model := got.header.Get("x-gateway-model"); model != "m-b" {
			t.Errorf("x-gateway-model = %q, want m-b", model)
		}
	})
	prove(t, "S-089", "what one target says does not stay for the next", func(t *testing.T) {
		p := fleet(t, withStatuses(500), nil)
		g.ask(t, tree(fallback, leaf(p[0], `"override_params":{"temperature":0.1,"user":"a"}`), leaf(p[1]))).wantOK(t)
		if got := string(p[1].only(t).body); got != modelRoutes[0].body {
			t.Errorf("the second target got %s, want the request's own body", got)
		}
	})
	for _, r := range modelRoutes {
		prove(t, "S-088", "on "+r.path, func(t *testing.T) {
			p := newProvider(t, nil)
			g.do(t, "POST", r.path, r.body, "x-gateway-api-key", bootstrapKey, "x-gateway-config", leaf(p, `"override_params":{"user":"of the config"}`)).wantOK(t)
			if got := p.only(t).field(t, "user"); got != `"of the config"` {
				t.Errorf("user at the provider = %s", got)
			}
		})
	}
	prove(t, "S-088", "in a repeated attempt too", func(t *testing.T) {
		p := newProvider(t, soon(withStatuses(503, 200)))
		g.ask(t, leaf(p, `"override_params":{"user":"of the config"}`, `"retry":{"attempts":1,"use_retry_after_headers":true}`)).wantOK(t)
		called(t, []int{2}, p)
		for i, in := range p.requests() {
			if got := in.field(t, "user"); got != `"of the config"` {
				t.Errorf("attempt %d: user at the provider = %s", i+1, got)
			}
		}
	})
}

func TestTargetsInherit(t *testing.T) {
	g, _ := start(t)
	const again, never = `"retry":{"attempts":2,"use_retry_after_headers":true}`, `"retry":{"attempts":0}`
	for _, tt := range []struct {
		name          string
		root, target  string
		calls, status int
	}{
		{"a retry of the root", again, "", 3, 200},
		{"a target's own retry instead", again, never, 1, 503},
		{"a target's own retry alone", "", again, 3, 200},
		{"no retry", "", "", 1, 503},
	} {
		prove(t, "S-131", tt.name, func(t *testing.T) {
			p := newProvider(t, soon(withStatuses(503, 503, 200)))
			target := leaf(p)
			if tt.target != "" {
				target = with(target, tt.target)
			}
			config := tree(single, tree(single, target))
			if tt.root != "" {
				config = with(config, tt.root)
			}
			if got := g.ask(t, config); got.status != tt.status {
				t.Errorf("status %d, want %d", got.status, tt.status)
			}
			called(t, []int{tt.calls}, p)
		})
	}
	prove(t, "S-131", "a retry around a fallback is one of each target", func(t *testing.T) {
		p := fleet(t, soon(withStatuses(503)), soon(withStatuses(503)))
		g.ask(t, with(tree(fallback, leaf(p[0]), leaf(p[1])), `"retry":{"attempts":1,"use_retry_after_headers":true}`))
		called(t, []int{2, 2}, p...)
	})
	prove(t, "S-131 S-088", "overrides are merged, the target's winning", func(t *testing.T) {
		p := newProvider(t, nil)
		g.ask(t, with(tree(single, leaf(p, `"override_params":{"temperature":1}`)), `"override_params":{"temperature":0,"user":"root"}`)).wantOK(t)
		in := p.only(t)
		if in.field(t, "temperature") != "1" || in.field(t, "user") != `"root"` {
			t.Errorf("the provider got %s, want temperature 1 and user root", in.body)
		}
	})
	nest := func(p *provider, root string, target ...string) string {
		return with(tree(single, tree(single, leaf(p, target...))), root)
	}
	prove(t, "S-131", "a cache of the root", func(t *testing.T) {
		p := newProvider(t, numbered())
		for _, want := range []string{"MISS", "HIT"} {
			if got := g.ask(t, nest(p, `"cache":{"mode":"simple"}`)).wantOK(t); got.header.Get("x-gateway-cache-status") != want {
				t.Errorf("x-gateway-cache-status = %q, want %s", got.header.Get("x-gateway-cache-status"), want)
			}
		}
		called(t, []int{1}, p)
	})
	prove(t, "S-131", "guardrails of the root, and a target's own list instead", func(t *testing.T) {
		p := newProvider(t, nil)
		const denies = `"input_guardrails":[{"id":"g","deny":true,"default.contains":{"operator":"none","words":["hi"]}}]`
		g.ask(t, nest(p, denies)).refused(t, 446)
		p.wantNoRequests(t)
		g.ask(t, nest(p, denies, `"input_guardrails":[]`)).wantOK(t)
		called(t, []int{1}, p)
	})
	prove(t, "S-131", "strict compliance of the root, and a target's own instead", func(t *testing.T) {
		p := newProvider(t, nil)
		body := strings.Replace(modelRoutes[0].body, "{", `{"tools":[{"type":"web_search"}],`, 1)
		ask := func(config string) response {
			return g.do(t, "POST", modelRoutes[0].path, body, "x-gateway-api-key", bootstrapKey, "x-gateway-config", config)
		}
		ask(nest(p, `"strict_vendora_compliance":true`)).refusedFor(t, "tools")
		p.wantNoRequests(t)
		ask(nest(p, `"strict_vendora_compliance":true`, `"strict_vendora_compliance":false`)).wantOK(t)
		called(t, []int{1}, p)
	})
	prove(t, "S-131", "who the parent is stays with the parent", func(t *testing.T) {
		p := newProvider(t, nil)
		own := []string{`"provider":"openai-compatible"`, `"api_key":"k"`, `"custom_host":"` + p.url + `"`}
		g.refuses(t, p, with(tree(single, `{"weight":1}`), own...), "$.targets[0]")
		g.refuses(t, p, with(tree(single, `{"weight":1}`), `"virtual_key":"stored"`), "$.targets[0]")
		g.refuses(t, p, with(tree(single, `{"provider":"openai"}`), `"api_key":"k"`), "$.targets[0]")
	})
	prove(t, "S-131", "the credential of the parent is not the target's", func(t *testing.T) {
		p := newProvider(t, nil)
		g.ask(t, with(tree(single, `{"provider":"openai-compatible"}`), `"provider":"openai-compatible"`, `"api_key":"of-the-parent"`, `"custom_host":"`+p.url+`"`)).wantOK(t)
		if auth := p.only(t).header.Get("Authorization"); auth != "" {
			t.Errorf("Authorization at the provider = %q, want none", auth)
		}
	})
	prove(t, "S-131", "the weight and codes of a parent are not the targets'", func(t *testing.T) {
		p := fleet(t, withStatuses(500), nil)
		inner := with(tree(loadbalance, leaf(p[0])), `"weight":0`)
		g.ask(t, tree(fallback, with(inner, `"on_status_codes":[500]`), leaf(p[1]))).wantOK(t)
		called(t, []int{1, 1}, p...)
		p = fleet(t, withStatuses(500), nil)
		g.ask(t, with(tree(fallback+`,"on_status_codes":[500]`, leaf(p[0]), leaf(p[1])), `"on_status_codes":[418]`)).wantOK(t)
		called(t, []int{1, 1}, p...)
	})
}

func TestConfigsWorkOnEveryRoute(t *testing.T) {
	g, _ := start(t)
	for _, r := range append(slices.Clone(modelRoutes), chatStream, modelRoute{path: "/v1/things?a=%2F&a=b", body: `{"odd": 1.0}`}) {
		name := strings.ReplaceAll(r.path, "/", "|") + " " + strings.ReplaceAll(r.body, "/", "|")
		ask := func(t *testing.T, config string, header ...string) response {
			t.Helper()
			return g.do(t, "POST", r.path, r.body, append([]string{"x-gateway-api-key", bootstrapKey, "x-gateway-config", config}, header...)...)
		}
		good := behaviour(nil)
		if r.path == chatStream.path && r.body == chatStream.body {
			good = streams("data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
		}
		prove(t, "S-026", name+" falls back", func(t *testing.T) {
			p := fleet(t, withStatuses(503), good)
			ask(t, tree(fallback, leaf(p[0]), leaf(p[1]))).wantOK(t)
			in := p[1].only(t)
			if !strings.HasSuffix(in.uri, r.path) || string(in.body) != r.body || string(p[0].only(t).body) != r.body {
				t.Errorf("the second target was asked for %s with %s", in.uri, in.body)
			}
		})
		prove(t, "S-028", name+" is repeated", func(t *testing.T) {
			p := newProvider(t, soon(withStatuses(503)))
			if got := ask(t, leaf(p, `"retry":{"attempts":2,"use_retry_after_headers":true}`)); got.status != 503 {
				t.Errorf("status %d, want the provider's", got.status)
			}
			called(t, []int{3}, p)
		})
		prove(t, "S-027", name+" is sent where a condition says", func(t *testing.T) {
			p := fleet(t, good, good)
			config := tree(`"mode":"conditional","conditions":[{"query":{"metadata.plan":"pro"},"then":"b"}],"default":"a"`, leaf(p[0], `"name":"a"`), leaf(p[1], `"name":"b"`))
			ask(t, config, "x-gateway-metadata", `{"plan":"pro"}`).wantOK(t)
			called(t, []int{0, 1}, p...)
		})
		prove(t, "S-035 S-036", name+" takes a header along to the config's host", func(t *testing.T) {
			p := newProvider(t, good)
			ask(t, leaf(p, `"forward_headers":["x-OWN"]`), "x-OWN", "Value 1").wantOK(t)
			if v, _ := p.only(t).line("x-OWN"); v != "Value 1" {
				t.Errorf("x-OWN at the provider = %q, want Value 1", v)
			}
		})
	}
	prove(t, "S-026 S-016", "a GET falls back", func(t *testing.T) {
		p := fleet(t, withStatuses(500), nil)
		g.do(t, "GET", "/v1/things/1", "", "x-gateway-api-key", bootstrapKey, "x-gateway-config", tree(fallback, leaf(p[0]), leaf(p[1]))).wantOK(t)
		called(t, []int{1, 1}, p...)
	})
}
