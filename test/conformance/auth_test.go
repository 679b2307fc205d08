package conformance

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestGatewayKeys(t *testing.T) {
	g, _ := start(t)
	p := newProvider(t, nil)
	for _, r := range []struct{ method, path string }{
		{"POST", "/v1/chat/completions"}, {"POST", "/v1/completions"}, {"POST", "/v1/embeddings"}, {"POST", "/v1/images/generations"},
		{"POST", "/v1/prompts/p/completions"}, {"POST", "/v1/batches"}, {"GET", "/v1/batches"}, {"POST", "/v1/batches/b/cancel"},
		{"POST", "/v1/fine_tuning/jobs"}, {"GET", "/v1/fine_tuning/jobs/j"}, {"POST", "/v1/fine_tuning/jobs/j/cancel"},
		{"GET", "/v1/fine_tuning/jobs/j/checkpoints"}, {"GET", "/v1/files"}, {"GET", "/v1/files/f"}, {"GET", "/v1/responses/r"},
		{"POST", "/v1/policies/rate-limits"}, {"GET", "/v1/policies/rate-limits/p"}, {"GET", "/v1/models"}, {"GET", "/v1/logs"},
		{"GET", "/v1/logs/l"}, {"GET", "/v1/analytics/groups/model"}, {"PUT", "/v1/any/thing"}, {"DELETE", "/v1/any/thing"},
	} {
		prove(t, "S-417 S-254", r.method+" "+r.path+" without a key", func(t *testing.T) {
			got := g.do(t, r.method, r.path, "", "x-gateway-provider", "openai-compatible", "x-gateway-custom-host", p.url, "Authorization", "Bearer "+credential)
			got.refused(t, http.StatusUnauthorized)
			p.none(t)
		})
	}
	chat := modelRoutes[0]
	for name, key := range map[string]string{
		"an empty key":            "",
		"a wrong key":             "mg-wrong",
		"a key with more behind":  bootstrapKey + "x",
		"a key cut short":         bootstrapKey[:len(bootstrapKey)-1],
		"a key in other capitals": strings.ToUpper(bootstrapKey),
		"the provider's key":      credential,
	} {
		prove(t, "S-422", name+" is refused", func(t *testing.T) {
			got := g.do(t, "POST", chat.path, chat.body, to(p, "x-gateway-api-key", key)[2:]...)
			got.refused(t, http.StatusUnauthorized)
			if key != "" && strings.Contains(string(got.body), key) {
				t.Errorf("the refusal repeats the key: %s", got.body)
			}
			p.none(t)
		})
	}
	prove(t, "S-422 S-417", "a key that stands twice is refused", func(t *testing.T) {
		got := g.do(t, "POST", chat.path, chat.body, to(p, "x-gateway-api-key", "mg-other")...)
		if got.status != http.StatusUnauthorized && got.status != http.StatusBadRequest {
			t.Errorf("status %d, want 401 or 400", got.status)
		}
		p.none(t)
	})
	prove(t, "S-422", "a key that is created works until it is revoked", func(t *testing.T) {
		var made struct{ ID, Key string }
		out, errText, code := command(t, "keys", "create", "--data", g.data, "--name", "suite", "--json")
		if err := json.Unmarshal([]byte(out), &made); err != nil || code != 0 || made.Key == "" || made.ID == "" {
			t.Fatalf("modelgate keys create: exit %d, %v: %s %s", code, err, errText, out)
		}
		status := func() int {
			return g.do(t, "POST", chat.path, chat.body, to(p, "x-gateway-api-key", made.Key)[2:]...).status
		}
		eventually(t, "the created key is taken", func() bool { return status() == http.StatusOK })
		if _, errText, code := command(t, "keys", "revoke", "--data", g.data, made.ID); code != 0 {
			t.Fatalf("modelgate keys revoke: exit %d: %s", code, errText)
		}
		eventually(t, "the revoked key is refused", func() bool { return status() == http.StatusUnauthorized })
		p.forget()
	})
}

func TestProviderAuthenticationIsNeeded(t *testing.T) {
	g, stored := start(t)
	key := []string{"x-gateway-api-key", bootstrapKey}
	for _, r := range modelRoutes {
		for _, tt := range []struct {
			of, name string
			header   []string
			param    string
			word     string
		}{
			{"S-418 S-254", "no provider", nil, "x-gateway-provider", "x-gateway-provider"},
			{"S-418", "a credential alone", []string{"Authorization", "Bearer " + credential}, "x-gateway-provider", "x-gateway-provider"},
			{"S-418", "a provider alone", []string{"x-gateway-provider", "openai"}, "authorization", "Authorization"},
			{"S-418", "another provider alone", []string{"x-gateway-provider", "groq"}, "authorization", "Authorization"},
		} {
			prove(t, tt.of, r.path+" with "+tt.name, func(t *testing.T) {
				e := g.do(t, "POST", r.path, r.body, append(slices.Clone(key), tt.header...)...).refused(t, http.StatusBadRequest)
				if e["param"] != tt.param || !strings.Contains(e["message"].(string), tt.word) {
					t.Errorf("error = %v, want one that names %s and says to send %s", e, tt.param, tt.word)
				}
			})
		}
		prove(t, "S-255 S-427", r.path+" with the virtual key header", func(t *testing.T) {
			stored.forget()
			g.do(t, "POST", r.path, r.body, append(slices.Clone(key), "x-gateway-virtual-key", "stored")...).fine(t)
			if auth := stored.only(t).header.Get("Authorization"); auth != "Bearer "+storedKey {
				t.Errorf("Authorization at the provider = %q, want the stored credential", auth)
			}
		})
		prove(t, "S-426 S-042", r.path+" with a slug", func(t *testing.T) {
			stored.forget()
			g.do(t, "POST", r.path, r.body, managed("@stored")...).fine(t)
			if auth := stored.only(t).header.Get("Authorization"); auth != "Bearer "+storedKey {
				t.Errorf("Authorization at the provider = %q, want the stored credential", auth)
			}
		})
	}
	prove(t, "S-427", "the virtual key may be written with @", func(t *testing.T) {
		stored.forget()
		g.do(t, "GET", "/v1/things", "", append(slices.Clone(key), "X-Gateway-Virtual-Key", "@stored")...).fine(t)
		stored.only(t)
	})
	prove(t, "S-426 S-042", "a credential of the client does not take the place of the stored one", func(t *testing.T) {
		stored.forget()
		g.do(t, "GET", "/v1/things", "", managed("@stored", "Authorization", "Bearer "+credential)...).fine(t)
		if auth := stored.only(t).header["Authorization"]; !slices.Equal(auth, []string{"Bearer " + storedKey}) {
			t.Errorf("Authorization at the provider = %q, want the stored credential", auth)
		}
	})
	prove(t, "S-042 S-426", "a model of the form @slug/model names it too", func(t *testing.T) {
		stored.forget()
		g.do(t, "POST", "/v1/chat/completions", `{"model":"@stored/m-9","messages":[{"role":"user","content":"x"}]}`, key...).fine(t)
		if got := stored.only(t).field(t, "model"); got != `"m-9"` {
			t.Errorf("model at the provider = %s, want m-9", got)
		}
	})
	for _, header := range [][]string{{"x-gateway-provider", "@unknown"}, {"x-gateway-virtual-key", "unknown"}, {"x-gateway-provider", "@"}, {"x-gateway-provider", "@Stored"}} {
		prove(t, "S-428", strings.Join(header, " "), func(t *testing.T) {
			stored.forget()
			got := g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, append(slices.Clone(key), header...)...)
			if got.status != http.StatusNotFound && got.status != http.StatusBadRequest {
				t.Errorf("status %d, want 404 or 400", got.status)
			}
			got.refused(t, got.status)
			stored.none(t)
		})
	}
	prove(t, "S-428", "in a config and in a model's name", func(t *testing.T) {
		stored.forget()
		for _, got := range []reply{
			g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, append(slices.Clone(key), "x-gateway-config", `{"provider":"@unknown"}`)...),
			g.do(t, "POST", modelRoutes[0].path, strings.Replace(modelRoutes[0].body, "m-1", "@unknown/m-1", 1), key...),
		} {
			if got.status != http.StatusNotFound && got.status != http.StatusBadRequest {
				t.Errorf("status %d, want 404 or 400", got.status)
			}
			got.refused(t, got.status)
		}
		stored.none(t)
	})
}

// authForms are providers and where they want their credential.
var authForms = []struct{ provider, header, value, query string }{
	{"openai", "Authorization", "Bearer " + credential, ""},
	{"groq", "Authorization", "Bearer " + credential, ""},
	{"anthropic", "X-Api-Key", credential, ""},
	{"azure-openai", "Api-Key", credential, ""},
	{"google", "X-Goog-Api-Key", credential, ""},
	{"palm", "", "", "key=" + credential},
}

func TestCredentialsTakeTheProvidersForm(t *testing.T) {
	g, stored := start(t)
	p := newProvider(t, nil)
	check := func(t *testing.T, in received, header, value, query string) {
		t.Helper()
		for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key"} {
			want := ""
			if name == header {
				want = value
			}
			if got := strings.Join(in.header[name], "|"); got != want {
				t.Errorf("%s at the provider = %q, want %q", name, got, want)
			}
		}
		want := "/v1/things?api-version=1"
		if query != "" {
			want += "&" + query
		}
		if in.uri != want {
			t.Errorf("the provider was asked for %s, want %s", in.uri, want)
		}
	}
	for _, f := range authForms {
		prove(t, "S-424 S-425", f.provider+" from a bearer token", func(t *testing.T) {
			p.forget()
			g.do(t, "GET", "/v1/things?api-version=1", "", "x-gateway-api-key", bootstrapKey, "x-gateway-provider", f.provider,
				"x-gateway-custom-host", p.url, "Authorization", "Bearer "+credential).fine(t)
			check(t, p.only(t), f.header, f.value, f.query)
		})
		prove(t, "S-082 S-425 S-430", f.provider+" from a config", func(t *testing.T) {
			p.forget()
			config := `{"provider":"` + f.provider + `","api_key":"` + credential + `","custom_host":"` + p.url + `"}`
			g.do(t, "GET", "/v1/things?api-version=1", "", "x-gateway-api-key", bootstrapKey, "x-gateway-config", config).fine(t)
			check(t, p.only(t), f.header, f.value, f.query)
		})
	}
	prove(t, "S-425 S-426", "a managed provider of another form", func(t *testing.T) {
		stored.forget()
		g.do(t, "GET", "/v1/things?api-version=1", "", managed("@native")...).fine(t)
		check(t, stored.only(t), "X-Api-Key", storedKey, "")
	})
	prove(t, "S-425", "a query of the client's own stays beside the credential", func(t *testing.T) {
		p.forget()
		g.do(t, "GET", "/v1/things?b=2&a=1", "", "x-gateway-api-key", bootstrapKey, "x-gateway-provider", "palm",
			"x-gateway-custom-host", p.url, "Authorization", "Bearer "+credential).fine(t)
		if in := p.only(t); in.uri != "/v1/things?b=2&a=1&key="+credential {
			t.Errorf("the provider was asked for %s", in.uri)
		}
	})
}

func TestConfigsNameProviders(t *testing.T) {
	g, stored := start(t)
	p := newProvider(t, nil)
	chat := modelRoutes[0]
	send := func(t *testing.T, config string, more ...string) reply {
		t.Helper()
		p.forget()
		stored.forget()
		return g.do(t, "POST", chat.path, chat.body, append([]string{"x-gateway-api-key", bootstrapKey, "x-gateway-config", config}, more...)...)
	}
	own := `"provider":"openai-compatible","api_key":"` + credential + `","custom_host":"` + p.url + `"`
	prove(t, "S-429 S-430", "a config alone suffices", func(t *testing.T) {
		send(t, `{`+own+`,"request_timeout":20000,"override_params":{"temperature":0.5}}`).fine(t)
		in := p.only(t)
		if in.field(t, "temperature") != "0.5" || in.header.Get("Authorization") != "Bearer "+credential {
			t.Errorf("the provider got %s with Authorization %q", in.body, in.header.Get("Authorization"))
		}
	})
	prove(t, "S-429 S-430", "a config of one target", func(t *testing.T) {
		send(t, `{"strategy":{"mode":"single"},"targets":[{`+own+`}]}`).fine(t)
		p.only(t)
	})
	prove(t, "S-042 S-430", "a slug in a config", func(t *testing.T) {
		send(t, `{"provider":"@stored"}`).fine(t)
		if auth := stored.only(t).header.Get("Authorization"); auth != "Bearer "+storedKey {
			t.Errorf("Authorization at the provider = %q, want the stored credential", auth)
		}
	})
	prove(t, "S-427 S-430", "a virtual key in a config", func(t *testing.T) {
		send(t, `{"virtual_key":"stored"}`).fine(t)
		stored.only(t)
	})
	for name, config := range map[string]string{"a saved config that is not there": "pc-unknown", "broken JSON": `{"provider":`, "an unknown property": `{` + own + `,"colour":1}`} {
		prove(t, "S-429", name+" is refused", func(t *testing.T) {
			got := send(t, config)
			if got.status != 400 && got.status != 404 {
				t.Errorf("status %d, want 400 or 404", got.status)
			}
			got.refused(t, got.status)
			p.none(t)
		})
	}
	prove(t, "S-085", "a custom host replaces the address as a whole", func(t *testing.T) {
		for _, host := range []string{p.root + "/some/prefix", p.root + "/some/prefix/"} {
			send(t, `{"provider":"openai","api_key":"k","custom_host":"`+host+`"}`).fine(t)
			if in := p.only(t); in.uri != "/some/prefix/chat/completions" {
				t.Errorf("with %s the provider was asked for %s, want /some/prefix/chat/completions", host, in.uri)
			}
		}
	})
	for _, host := range []string{"not a url", "example.com/v1", "ftp://example.com", "//example.com", "http://", "file:///etc/passwd", "http://user:pass@example.com"} {
		prove(t, "S-085", "the custom host "+host+" is refused", func(t *testing.T) {
			send(t, `{"provider":"openai","api_key":"k","custom_host":"`+host+`"}`).refused(t, http.StatusBadRequest)
			p.none(t)
		})
	}
	prove(t, "S-258", "a model that the config gives need not be in the body", func(t *testing.T) {
		p.forget()
		g.do(t, "POST", chat.path, `{"messages":[{"role":"user","content":"x"}]}`, "x-gateway-api-key", bootstrapKey,
			"x-gateway-config", `{`+own+`,"override_params":{"model":"m-3"}}`).fine(t)
		if got := p.only(t).field(t, "model"); got != `"m-3"` {
			t.Errorf("model at the provider = %s, want m-3", got)
		}
	})
	prove(t, "S-258", "a deployment that the headers name stands for the model", func(t *testing.T) {
		p.forget()
		g.do(t, "POST", chat.path, `{"messages":[{"role":"user","content":"x"}]}`, "x-gateway-api-key", bootstrapKey,
			"x-gateway-provider", "azure-openai", "x-gateway-custom-host", p.root+"/openai", "Authorization", "Bearer "+credential,
			"x-gateway-cloud-c-deployment-id", "mine", "x-gateway-cloud-c-api-version", "2024-10-21").fine(t)
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
		p.none(t)
	})
	prove(t, "S-258", "a config that gives no model does not excuse its absence", func(t *testing.T) {
		p.forget()
		g.do(t, "POST", chat.path, `{"messages":[{"role":"user","content":"x"}]}`, "x-gateway-api-key", bootstrapKey,
			"x-gateway-config", `{`+own+`}`).refusedFor(t, "model")
		p.none(t)
	})
}

func TestCustomHosts(t *testing.T) {
	g, stored := start(t)
	chat := modelRoutes[0]
	prove(t, "S-431", "the request and its token go there", func(t *testing.T) {
		p := newProvider(t, nil)
		for _, provider := range []string{"openai", "groq", "openai-compatible"} {
			p.forget()
			g.do(t, "POST", chat.path, chat.body, "x-gateway-api-key", bootstrapKey, "x-gateway-provider", provider,
				"x-gateway-custom-host", p.root+"/deep/er", "Authorization", "Bearer "+credential).fine(t)
			in := p.only(t)
			host, _ := in.line("Host")
			if in.uri != "/deep/er/chat/completions" || in.header.Get("Authorization") != "Bearer "+credential || host != p.host {
				t.Errorf("%s: the host was asked for %s:\n%s", provider, in.uri, in.head)
			}
		}
	})
	prove(t, "S-432", "openai-compatible changes nothing", func(t *testing.T) {
		p := newProvider(t, nil)
		body := `{ "logit_bias":{"1":1}, "model":"any/thing","n":3, "max_completion_tokens":9,"logprobs":true,"messages":[{"role":"user","content":"x"}],"own":1.0}`
		g.do(t, "POST", chat.path, body, to(p)...).fine(t)
		if in := p.only(t); string(in.body) != body {
			t.Errorf("the host got %s, want %s", in.body, body)
		}
	})
	prove(t, "S-433", "a custom host alone is refused", func(t *testing.T) {
		p := newProvider(t, nil)
		for _, r := range []struct{ path, body string }{{chat.path, chat.body}, {"/v1/things", `{}`}} {
			e := g.do(t, "POST", r.path, r.body, "x-gateway-api-key", bootstrapKey, "x-gateway-custom-host", p.url, "Authorization", "Bearer "+credential).refused(t, http.StatusBadRequest)
			if e["param"] != "x-gateway-provider" {
				t.Errorf("param = %v, want x-gateway-provider", e["param"])
			}
		}
		g.do(t, "POST", chat.path, chat.body, "x-gateway-api-key", bootstrapKey, "x-gateway-config", `{"custom_host":"`+p.url+`","api_key":"k"}`).refused(t, http.StatusBadRequest)
		p.none(t)
	})
	prove(t, "S-434 S-426", "a stored credential goes to no other host", func(t *testing.T) {
		p := newProvider(t, nil)
		stored.forget()
		g.do(t, "POST", chat.path, chat.body, managed("@stored", "x-gateway-custom-host", p.url)...).refused(t, http.StatusBadRequest)
		p.none(t)
		stored.none(t)
	})
}

func TestPrivateAddressesAreRefused(t *testing.T) {
	g := launchFor(t, "version: 1\n")
	p := newProvider(t, nil)
	_, port, _ := strings.Cut(p.host, ":")
	hosts := []string{
		p.url, "http://localhost:" + port + "/v1", "http://LOCALHOST:" + port, "http://sub.localhost:" + port, "http://127.1:" + port,
		"http://127.9.9.9:" + port, "http://2130706433:" + port, "http://0x7f000001:" + port, "http://0177.0.0.1:" + port,
		"http://0.0.0.0:" + port, "http://[::1]:" + port, "http://[::ffff:127.0.0.1]:" + port, "http://[::]:" + port,
		"http://169.254.169.254/latest", "http://[fd00:ec2::254]/", "http://metadata.google.internal/", "http://169.254.170.2/",
		"http://10.0.0.1/v1", "http://10.255.255.255", "http://172.16.0.1", "http://172.31.255.255", "http://192.168.0.1/v1",
		"http://100.64.0.1", "http://169.254.0.1", "http://[fc00::1]", "http://[fe80::1]", "http://[64:ff9b::a00:1]", "http://224.0.0.1",
		"http://255.255.255.255",
	}
	for _, host := range hosts {
		prove(t, "S-434", strings.ReplaceAll(host, port, "PORT"), func(t *testing.T) {
			e := g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, "x-gateway-api-key", bootstrapKey, "x-gateway-provider", "openai",
				"x-gateway-custom-host", host, "Authorization", "Bearer "+credential).refused(t, http.StatusBadRequest)
			if !strings.Contains(e["message"].(string), "rule") {
				t.Errorf("message = %q, want the rule that refuses it", e["message"])
			}
		})
	}
	for name, header := range map[string][]string{
		"in a config":     {"x-gateway-config", `{"provider":"openai","api_key":"k","custom_host":"` + p.url + `"}`},
		"on pass-through": {"x-gateway-provider", "openai", "x-gateway-custom-host", p.url, "Authorization", "Bearer k"},
	} {
		prove(t, "S-434", name, func(t *testing.T) {
			g.do(t, "POST", "/v1/things", `{}`, append([]string{"x-gateway-api-key", bootstrapKey}, header...)...).refused(t, http.StatusBadRequest)
		})
	}
	prove(t, "S-434", "nothing of all that reached this machine", func(t *testing.T) { p.none(t) })
	prove(t, "S-434", "an address that is trusted is reached", func(t *testing.T) {
		trusting, _ := start(t)
		trusting.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p)...).fine(t)
		p.only(t)
	})
}
