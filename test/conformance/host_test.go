package conformance

import (
	"net/http"
	"strings"
	"testing"
)

func TestCustomHosts(t *testing.T) {
	g, stored := start(t)
	chat := modelRoutes[0]
	prove(t, "S-431", "the request and its token go there", func(t *testing.T) {
		p := newProvider(t, nil)
		for _, provider := range []string{"openai", "groq", "openai-compatible"} {
			p.forget()
			g.do(t, "POST", chat.path, chat.body, "x-gateway-api-key", bootstrapKey, "x-gateway-provider", provider,
				"x-gateway-custom-host", p.root+"/deep/er", "Authorization", "Bearer "+credential).wantOK(t)
			in := p.only(t)
			host, _ := in.line("Host")
			if in.uri != "/deep/er/chat/completions" || in.header.Get("Authorization") != "Bearer "+credential || host != p.host {
				t.Errorf("%s: the host was asked for %s:\n%s", provider, in.uri, in.head)
			}
		}
	})
	prove(t, "S-432", "openai-compatible changes nothing", func(t *testing.T) {
		p := newProvider(t, nil)
		body := `{ "logit_bias":{"1":1}, "model":"any/thing","n":3, "max_completion_tokens":9,"logprobs":true,"messages":[{"role":"user","content":"x"}],"own":1.0,
			"temperature" : 1.90, "top_p":1, "top_k":7, "presence_penalty":-2, "seed":-1, "stop":["a","b","c","d"], "parallel_tool_calls":false, "stream":false, "max_tokens":8, "user":""}`
		g.do(t, "POST", chat.path, body, to(p)...).wantOK(t)
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
		p.wantNoRequests(t)
	})
	prove(t, "S-434 S-426", "a stored credential goes to no other host", func(t *testing.T) {
		p := newProvider(t, nil)
		stored.forget()
		g.do(t, "POST", chat.path, chat.body, managed("@stored", "x-gateway-custom-host", p.url)...).refused(t, http.StatusBadRequest)
		p.wantNoRequests(t)
		stored.wantNoRequests(t)
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
		// The far ends of the ranges.
		"http://0.255.255.255", "http://127.255.255.254:" + port, "http://169.254.255.254", "http://192.168.255.254", "http://100.127.255.254",
		"http://239.255.255.255", "http://240.0.0.1", "http://[fdff::1]", "http://[febf::1]", "http://[fec0::1]", "http://[ff02::1]",
		// IPv6 addresses that hold a private IPv4 address.
		"http://[::a00:1]", "http://[::ffff:10.0.0.1]", "http://[::ffff:0:a00:1]", "http://[64:ff9b:1::a00:1]", "http://[2002:a00:1::1]",
		// Metadata services at public addresses and by name, names of private networks, names that resolve to what they say.
		"http://100.100.100.200", "http://168.63.129.16", "http://192.0.0.192", "http://169.254.170.23", "http://[fd20:ce::254]",
		"http://metadata.goog", "http://metadata.azure.com", "http://instance-data", "http://metadata",
		"http://models.internal", "http://printer.local", "http://models.home.arpa", "http://10.0.0.1.nip.io",
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
	prove(t, "S-434", "nothing of all that reached this machine", func(t *testing.T) { p.wantNoRequests(t) })
	prove(t, "S-434", "an address that is trusted is reached", func(t *testing.T) {
		trusting, _ := start(t)
		trusting.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p)...).wantOK(t)
		p.only(t)
	})
}
