package conformance

import (
	"net/http"
	"strings"
	"testing"
)

func TestConfigsNameProviders(t *testing.T) {
	g, stored := start(t)
	p := newProvider(t, nil)
	chat := modelRoutes[0]
	send := func(t *testing.T, config string, more ...string) response {
		t.Helper()
		p.forget()
		stored.forget()
		return g.do(t, "POST", chat.path, chat.body, append([]string{"x-gateway-api-key", bootstrapKey, "x-gateway-config", config}, more...)...)
	}
	own := `"provider":"openai-compatible","api_key":"` + credential + `","custom_host":"` + p.url + `"`
	prove(t, "S-429 S-430", "a config alone suffices", func(t *testing.T) {
		send(t, `{`+own+`,"request_timeout":20000,"override_params":{"temperature":0.5}}`).wantOK(t)
		in := p.only(t)
		if in.field(t, "temperature") != "0.5" || in.header.Get("Authorization") != "Bearer "+credential {
			t.Errorf("the provider got %s with Authorization %q", in.body, in.header.Get("Authorization"))
		}
	})
	prove(t, "S-429 S-430", "a config of one target", func(t *testing.T) {
		send(t, `{"strategy":{"mode":"single"},"targets":[{`+own+`}]}`).wantOK(t)
		p.only(t)
	})
	prove(t, "S-042 S-430", "a slug in a config", func(t *testing.T) {
		send(t, `{"provider":"@stored"}`).wantOK(t)
		if auth := stored.only(t).header.Get("Authorization"); auth != "Bearer "+storedKey {
			t.Errorf("Authorization at the provider = %q, want the stored credential", auth)
		}
	})
	prove(t, "S-427 S-430", "a virtual key in a config", func(t *testing.T) {
		send(t, `{"virtual_key":"stored"}`).wantOK(t)
		stored.only(t)
	})
	for name, config := range map[string]string{"a saved config that is not there": "pc-unknown", "broken JSON": `{"provider":`, "an unknown property": `{` + own + `,"colour":1}`} {
		prove(t, "S-429", name+" is refused", func(t *testing.T) {
			got := send(t, config)
			if got.status != 400 && got.status != 404 {
				t.Errorf("status %d, want 400 or 404", got.status)
			}
			got.refused(t, got.status)
			p.wantNoRequests(t)
		})
	}
	foreign := strings.Replace(chat.body, "{", `{"tools":[{"type":"web_search"}],`, 1)
	for _, tt := range []struct {
		name, config string
		header       []string
		refused      bool
	}{
		{"strict in a config", `{` + own + `,"strict_vendora_compliance":true}`, nil, true},
		{"strict around a target", `{"strict_vendora_compliance":true,"strategy":{"mode":"single"},"targets":[{` + own + `}]}`, nil, true},
		{"not strict in a config", `{` + own + `,"strict_vendora_compliance":false}`, nil, false},
		{"nothing said", `{` + own + `}`, nil, false},
		{"strict in the header over the config", `{` + own + `,"strict_vendora_compliance":false}`, []string{"x-gateway-strict-vendora-compliance", "true"}, true},
		{"not strict in the header over the config", `{` + own + `,"strict_vendora_compliance":true}`, []string{"x-gateway-strict-vendora-compliance", "false"}, false},
	} {
		prove(t, "S-279", "a tool of another type with "+tt.name, func(t *testing.T) {
			p.forget()
			got := g.do(t, "POST", chat.path, foreign, append([]string{"x-gateway-api-key", bootstrapKey, "x-gateway-config", tt.config}, tt.header...)...)
			if tt.refused {
				got.refusedFor(t, "tools")
				p.wantNoRequests(t)
				return
			}
			got.wantOK(t)
			p.only(t)
		})
	}
	prove(t, "S-279", "a tool of another type with strict for a provider of another protocol", func(t *testing.T) {
		x, other := byProvider("anthropic"), newProvider(t, speaks(false))
		g.do(t, "POST", chat.path, x.ask(`"tools":[{"type":"web_search"}]`), x.to(other, "x-gateway-strict-vendora-compliance", "true")...).wantOK(t)
		other.only(t)
	})
	prove(t, "S-085", "a custom host replaces the address as a whole", func(t *testing.T) {
		for _, host := range []string{p.root + "/some/prefix", p.root + "/some/prefix/"} {
			send(t, `{"provider":"openai","api_key":"k","custom_host":"`+host+`"}`).wantOK(t)
			if in := p.only(t); in.uri != "/some/prefix/chat/completions" {
				t.Errorf("with %s the provider was asked for %s, want /some/prefix/chat/completions", host, in.uri)
			}
		}
	})
	for _, host := range []string{"not a url", "example.com/v1", "ftp://example.com", "//example.com", "http://", "file:///etc/passwd", "http://user:pass@example.com"} {
		prove(t, "S-085", "the custom host "+host+" is refused", func(t *testing.T) {
			config := `{"provider":"openai","api_key":"k","custom_host":"` + host + `"}`
			send(t, config).refused(t, http.StatusBadRequest)
			p.wantNoRequests(t)
			g.as(t, bootstrapKey, "POST", "/v1/configs", `{"name":"c","workspace_id":"default","config":`+config+`}`).told(t, http.StatusBadRequest, "AB01")
		})
	}
	prove(t, "S-258", "a model that the config gives need not be in the body", func(t *testing.T) {
		p.forget()
		g.do(t, "POST", chat.path, `{"messages":[{"role":"user","content":"x"}]}`, "x-gateway-api-key", bootstrapKey,
			"x-gateway-config", `{`+own+`,"override_params":{"model":"m-3"}}`).wantOK(t)
		if got := p.only(t).field(t, "model"); got != `"m-3"` {
			t.Errorf("model at the provider = %s, want m-3", got)
		}
	})
	prove(t, "S-258", "a deployment that the headers name stands for the model", func(t *testing.T) {
		p.forget()
		g.do(t, "POST", chat.path, `{"messages":[{"role":"user","content":"x"}]}`, "x-gateway-api-key", bootstrapKey,
			"x-gateway-provider", "azure-openai", "x-gateway-custom-host", p.root+"/openai", "Authorization", "Bearer "+credential,
			"x-gateway-cloud-c-deployment-id", "mine", "x-gateway-cloud-c-api-version", "2024-10-21").wantOK(t)
		if in := p.only(t); !strings.HasPrefix(in.uri, "/openai/deployments/mine/chat/completions") || !strings.Contains(in.uri, "api-version=2024-10-21") {
			t.Errorf("the provider was asked for %s", in.uri)
		}
	})
	prove(t, "S-257 S-258", "a config that gives the model lets nothing else be missing", func(t *testing.T) {
		p.forget()
		for _, body := range []string{`{}`, `{"top_logprobs":3,"messages":[{"role":"user","content":"x"}]}`} {
			g.do(t, "POST", chat.path, body, "x-gateway-api-key", bootstrapKey,
				"x-gateway-config", `{`+own+`,"override_params":{"model":"m-3"}}`).refused(t, http.StatusBadRequest)
		}
		p.wantNoRequests(t)
	})
	prove(t, "S-258", "a config that gives no model does not excuse its absence", func(t *testing.T) {
		p.forget()
		g.do(t, "POST", chat.path, `{"messages":[{"role":"user","content":"x"}]}`, "x-gateway-api-key", bootstrapKey,
			"x-gateway-config", `{`+own+`}`).refusedFor(t, "model")
		p.wantNoRequests(t)
	})
}
