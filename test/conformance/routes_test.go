package conformance

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// modelRoute is a route that the gateway checks, with a valid body.
type modelRoute struct{ of, path, body string }

var modelRoutes = []modelRoute{
	{"S-005 S-289 S-487", "/v1/chat/completions", `{"model":"m-1","messages":[{"role":"user","content":"hi"}]}`},
	{"S-006 S-290 S-311 S-487", "/v1/completions", `{"model":"m-2","prompt":"once"}`},
	{"S-007 S-312 S-487", "/v1/embeddings", `{"model":"e-1","input":["one","two"]}`},
	{"S-008 S-321 S-334 S-487", "/v1/images/generations", `{"prompt":"a cat","n":2}`},
}

func TestModelRoutesReturnTheResponse(t *testing.T) {
	g, _ := start(t)
	for _, r := range modelRoutes {
		prove(t, r.of+" S-004", r.path, func(t *testing.T) {
			want := cannedBodies[strings.TrimPrefix(r.path, "/v1")]
			if r.path == "/v1/completions" {
				want = cannedBodies[r.path]
			}
			// Only on a route of the gateway's own a provider's 201 becomes 200.
			p := newProvider(t, says(201, "application/json", want))
			got := g.do(t, "POST", r.path, r.body, to(p)...).wantOK(t)
			in := p.only(t)
			if in.method != "POST" || in.uri != r.path || string(in.body) != r.body {
				t.Errorf("the provider got %s %s %s, want POST %s %s", in.method, in.uri, in.body, r.path, r.body)
			}
			if auth := in.header.Get("Authorization"); auth != "Bearer "+credential {
				t.Errorf("Authorization at the provider = %q", auth)
			}
			if string(got.body) != want || got.header.Get("Content-Type") != "application/json" {
				t.Errorf("answer = %s, want the provider's %s", got.body, want)
			}
		})
	}
	for path, body := range map[string]string{
		"/v1/audio/speech":                 `{"model":"m","input":"hi","voice":"alloy"}`,
		"/v1/moderations":                  `{"model":"m","input":"hi"}`,
		"/v1/messages":                     `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`,
		"/v1/responses":                    `{"model":"m","input":"hi"}`,
		"/v1beta/models/m:generateContent": `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`,
		"/model/m/converse":                `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`,
	} {
		prove(t, "S-487", "a provider's 201 becomes 200 on "+path, func(t *testing.T) {
			p := newProvider(t, says(201, "application/json", cannedBodies["/chat/completions"]))
			g.do(t, "POST", path, body, to(p)...).wantOK(t)
			p.only(t)
		})
	}
	prove(t, "S-256", "a GET of chat completions goes to the provider as it is", func(t *testing.T) {
		p := newProvider(t, says(200, "application/json", `{"object":"list","data":[ ]}`))
		got := g.do(t, "GET", "/v1/chat/completions?limit=2", "", to(p)...).wantOK(t)
		if in := p.only(t); in.method != "GET" || in.uri != "/v1/chat/completions?limit=2" || string(got.body) != `{"object":"list","data":[ ]}` {
			t.Errorf("the provider got %s %s and the client %s", in.method, in.uri, got.body)
		}
	})
}

func TestPathsBeginWithTheVersion(t *testing.T) {
	g, _ := start(t)
	p := newProvider(t, nil)
	for _, path := range []string{"/chat/completions", "/completions", "/embeddings", "/images/generations", "/models", "/files", "/logs"} {
		prove(t, "S-001", path+" is found below /v1 alone", func(t *testing.T) {
			if got := g.do(t, "POST", path, `{}`, to(p)...); got.status != http.StatusNotFound {
				t.Errorf("status %d, want 404", got.status)
			}
			p.wantNoRequests(t)
		})
	}
	prove(t, "S-001", "health and readiness are next to it", func(t *testing.T) {
		for _, address := range []string{g.root, g.admin} {
			for _, path := range []string{"/health", "/ready"} {
				res, err := client.Get(address + path)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				if res.StatusCode != http.StatusOK {
					t.Errorf("GET %s%s = %d, want 200", address, path, res.StatusCode)
				}
			}
		}
	})
	for _, prefix := range []string{"/v2", "/v0", "/v", "/V1", "/v1beta1x", "//v1"} {
		prove(t, "S-518", prefix+" is not a version", func(t *testing.T) {
			if got := g.do(t, "POST", prefix+"/chat/completions", `{}`, to(p)...); got.status != http.StatusNotFound {
				t.Errorf("status %d, want 404", got.status)
			}
			p.wantNoRequests(t)
		})
	}
}

var ownHeader = regexp.MustCompile(`^X-Gateway-[A-Z]`)

func TestHeadersOfTheGateway(t *testing.T) {
	g, _ := start(t)
	// What HTTP and the protocols define in addition to the gateway's headers.
	known := []string{"Content-Type", "Content-Length", "Date", "Connection", "Transfer-Encoding", "Cache-Control", "X-Accel-Buffering", "Allow", "Retry-After"}
	p := newProvider(t, nil)
	for name, got := range map[string]func() response{
		"a response": func() response { return g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p)...) },
		"a refusal":  func() response { return g.do(t, "POST", modelRoutes[0].path, `{`, to(p)...) },
	} {
		prove(t, "S-002", name+" has headers of the family alone", func(t *testing.T) {
			own := 0
			for name := range got().header {
				switch {
				case ownHeader.MatchString(name):
					own++
				case !slices.Contains(known, name):
					t.Errorf("the response has a header %s", name)
				}
			}
			if own < 2 {
				t.Errorf("%d headers of the family, want at least request id and trace id", own)
			}
		})
	}
	prove(t, "S-419", "a request without the further headers is served", func(t *testing.T) {
		p.forget()
		g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p)...).wantOK(t)
	})
	prove(t, "S-600", "no header chooses a version", func(t *testing.T) {
		for _, header := range [][]string{nil, {"x-gateway-version", "2"}, {"Accept", "application/vnd.modelgate.v2+json"}, {"Api-Version", "1999-01-01"}} {
			p.forget()
			got := g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p, header...)...).wantOK(t)
			if in := p.only(t); in.uri != "/v1/chat/completions" || string(got.body) != cannedBodies["/chat/completions"] {
				t.Errorf("with %v the provider was asked for %s and the client got %s", header, in.uri, got.body)
			}
		}
	})
	prove(t, "S-419", "a header that is left out changes nothing of a config", func(t *testing.T) {
		p := newProvider(t, hang)
		g.ask(t, leaf(p, `"forward_headers":["X-Team"]`, `"request_timeout":200`), "X-Team", "one").refused(t, http.StatusRequestTimeout)
		if in := p.only(t); in.header.Get("X-Team") != "one" || in.header.Get("Authorization") != "Bearer "+credential {
			t.Errorf("the provider got %v, want what the config says", in.header)
		}
	})
}

func TestNeutralNamesOfProviders(t *testing.T) {
	g, _ := start(t)
	p := newProvider(t, nil)
	for _, name := range []string{"vendora", "vendorb", "cloud_a", "cloud_b", "cloud_c"} {
		prove(t, "S-003", name, func(t *testing.T) {
			p.forget()
			g.do(t, "GET", "/v1/things", "", "x-gateway-api-key", bootstrapKey, "x-gateway-provider", name,
				"x-gateway-custom-host", p.url, "Authorization", "Bearer "+credential).wantOK(t)
			if in := p.only(t); !strings.Contains(in.head, credential) {
				t.Errorf("the credential did not reach the provider:\n%s", in.head)
			}
		})
	}
	prove(t, "S-003", "and in a config", func(t *testing.T) {
		p.forget()
		config := `{"provider":"vendora","api_key":"k","custom_host":"` + p.url + `"}`
		g.do(t, "GET", "/v1/things", "", "x-gateway-api-key", bootstrapKey, "x-gateway-config", config).wantOK(t)
		p.only(t)
	})
	prove(t, "S-003", "and in the properties of a config", func(t *testing.T) {
		p.forget()
		config := `{"provider":"vendora","api_key":"k","custom_host":"` + p.url + `","strict_vendora_compliance":true,` +
			`"vendora_organization":"o","vendora_project":"p","vendorb_beta":"b","cloud_a_region":"r","cloud_b_region":"r","cloud_b_project_id":"p",` +
			`"cloud_c_region":"r","cloud_c_deployment_name":"d","cloud_c_api_version":"v"}`
		g.do(t, "GET", "/v1/things", "", "x-gateway-api-key", bootstrapKey, "x-gateway-config", config).wantOK(t)
		p.only(t)
	})
}

func TestProvidersArePublished(t *testing.T) {
	var list []struct {
		ID      string `json:"id"`
		BaseURL string `json:"base_url"`
		Auth    string `json:"auth"`
		Name    string `json:"name"`
	}
	out, errText, code := command(t, "providers", "--json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 {
		t.Fatalf("modelgate providers --json: exit %d, %v: %s %.200s", code, err, errText, out)
	}
	prove(t, "S-040", "more than forty, each with its own id and a name", func(t *testing.T) {
		ids := map[string]bool{}
		addresses := 0
		for _, p := range list {
			if p.ID == "" || p.Name == "" || ids[p.ID] {
				t.Errorf("the provider %+v lacks an id or name, or is duplicated", p)
			}
			ids[p.ID] = true
			if strings.HasPrefix(p.BaseURL, "http") {
				addresses++
			}
		}
		if addresses <= 40 {
			t.Errorf("%d providers with an address, want more than 40", addresses)
		}
	})
	g, _ := start(t)
	p := newProvider(t, nil)
	prove(t, "S-040 S-435", "every id is taken and sends the credential", func(t *testing.T) {
		for _, row := range list {
			p.forget()
			header := []string{"x-gateway-api-key", bootstrapKey, "x-gateway-provider", row.ID, "x-gateway-custom-host", p.url}
			signs := row.Auth == "SigV4" || row.Auth == "OCI signature" // the host does it where there is nothing to sign with
			if !signs {
				header = append(header, "Authorization", "Bearer "+credential)
			}
			got := g.do(t, "GET", "/v1/things", "", header...)
			in := p.requests()
			if got.status != http.StatusOK || len(in) != 1 {
				t.Errorf("provider %s: status %d after %d calls: %.200s", row.ID, got.status, len(in), got.body)
				continue
			}
			if !signs && row.Auth != "none" && !strings.Contains(in[0].head, credential) {
				t.Errorf("provider %s: the credential is neither in a header nor in the query:\n%s", row.ID, in[0].head)
			}
		}
	})
	for _, id := range []string{"no-such-provider", "openai2", "../openai", "open ai", "{}", "openai,anthropic"} {
		prove(t, "S-435", strconv.Quote(id)+" is refused", func(t *testing.T) {
			p.forget()
			got := g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, "x-gateway-api-key", bootstrapKey, "x-gateway-provider", id,
				"x-gateway-custom-host", p.url, "Authorization", "Bearer "+credential)
			got.refused(t, http.StatusBadRequest)
			p.wantNoRequests(t)
		})
	}
}

func TestModelsOfManagedProvidersAreListed(t *testing.T) {
	g, _ := start(t)
	got := g.do(t, "GET", "/v1/models", "", "x-gateway-api-key", bootstrapKey).wantOK(t)
	var list struct {
		Object string
		Data   []struct {
			ID, Object string
			Created    json.Number
		}
	}
	if err := json.Unmarshal(got.body, &list); err != nil {
		t.Fatal(err)
	}
	prove(t, "S-041", "@stored/m-1 is listed", func(t *testing.T) {
		if list.Object != "list" || len(list.Data) == 0 || list.Data[0].ID != "@stored/m-1" || list.Data[0].Object != "model" {
			t.Errorf("GET /v1/models = %s, want a list that begins with @stored/m-1", got.body)
		}
	})
	prove(t, "S-041", "one provider's own list arrives as it is", func(t *testing.T) {
		one := g.do(t, "GET", "/v1/models", "", managed("@stored")...).wantOK(t)
		if string(one.body) != cannedBodies["/models"] {
			t.Errorf("GET /v1/models of @stored = %s, want %s", one.body, cannedBodies["/models"])
		}
	})
	prove(t, "S-044", "a listed model keeps the time that its provider gave it", func(t *testing.T) {
		if len(list.Data) == 0 || list.Data[0].Created != "1700000004" {
			t.Errorf("GET /v1/models = %s, want the provider's created", got.body)
		}
	})
}
