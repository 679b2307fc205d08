package provider_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
)

// row is a provider with everything that an address may be made of.
func row() *provider.Spec {
	return &provider.Spec{
		ID: "row", BaseURL: "https://{region}.example.com/v1", Auth: provider.Bearer(), OptionPrefix: "cloud_",
		Paths: map[api.Operation]string{
			api.Chat:       "/deployments/{model}/chat?api-version={version}",
			api.Embeddings: "https://other.example.com/embed/{model}",
			api.Models:     "/models",
		},
		Options: []provider.Option{{Name: "region", Default: "eu"}, {Name: "version"}, {Name: "org", Header: "X-Org"}},
		Header:  map[string]string{"X-Row": "row", "X-Both": "row"},
	}
}

func build(t *testing.T, s provider.Settings, c provider.Call) (*http.Request, error) {
	t.Helper()
	target, err := provider.NewTarget(row(), s)
	if err != nil {
		return nil, err
	}
	return provider.NewRequest(t.Context(), target, &c)
}

// wire is the request as net/http sends it.
func wire(t *testing.T, req *http.Request) string {
	t.Helper()
	var b strings.Builder
	if err := req.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTheAddressOfACall(t *testing.T) {
	with := func(more ...string) map[string]string {
		o := map[string]string{"version": "1"}
		for i := 0; i < len(more); i += 2 {
			o[more[i]] = more[i+1]
		}
		return o
	}
	for _, tt := range []struct {
		name     string
		settings provider.Settings
		call     provider.Call
		host     string
		line     string // the request target; empty where the call is refused
	}{
		{"defaults", provider.Settings{Options: with()}, provider.Call{Operation: api.Chat, Model: "m"}, "eu.example.com", "/v1/deployments/m/chat?api-version=1"},
		{"an option", provider.Settings{Options: with("region", "us-1")}, provider.Call{Operation: api.Chat, Model: "m"}, "us-1.example.com", "/v1/deployments/m/chat?api-version=1"},
		{"an option under its config name", provider.Settings{Options: with("cloud_region", "us-2")}, provider.Call{Operation: api.Chat, Model: "m"}, "us-2.example.com", "/v1/deployments/m/chat?api-version=1"},
		{"a model that is a path", provider.Settings{Options: with()}, provider.Call{Operation: api.Chat, Model: "a/b?x#y"}, "eu.example.com", "/v1/deployments/a%2Fb%3Fx%23y/chat?api-version=1"},
		{"a model that climbs inside a segment", provider.Settings{Options: with()}, provider.Call{Operation: api.Chat, Model: "a/../b"}, "", ""},
		{"a model that climbs", provider.Settings{Options: with()}, provider.Call{Operation: api.Chat, Model: ".."}, "", ""},
		{"a model with a line end", provider.Settings{Options: with()}, provider.Call{Operation: api.Chat, Model: "m HTTP/1.1\r\nX-Evil: 1"}, "eu.example.com", "/v1/deployments/m%20HTTP%2F1.1%0D%0AX-Evil%3A%201/chat?api-version=1"},
		{"no model", provider.Settings{Options: with()}, provider.Call{Operation: api.Chat}, "", ""},
		{"a missing option", provider.Settings{}, provider.Call{Operation: api.Chat, Model: "m"}, "", ""},
		{"an option that leaves the host", provider.Settings{Options: with("region", "evil.net/x")}, provider.Call{Operation: api.Models}, "", ""},
		{"an option with a user", provider.Settings{Options: with("region", "a@evil.net#")}, provider.Call{Operation: api.Models}, "", ""},
		{"an option with a port", provider.Settings{Options: with("region", "evil.net:80")}, provider.Call{Operation: api.Models}, "", ""},
		{"an option with a line end", provider.Settings{Options: with("region", "a\r\nb")}, provider.Call{Operation: api.Models}, "", ""},
		{"another host for a path", provider.Settings{}, provider.Call{Operation: api.Embeddings, Model: "m", Query: "a=1"}, "other.example.com", "/embed/m?a=1"},
		{"a custom host", provider.Settings{CustomHost: "http://10.0.0.1:8080/base/"}, provider.Call{Operation: api.Models}, "10.0.0.1:8080", "/base/models"},
		{"a custom host without a scheme", provider.Settings{CustomHost: "example.com"}, provider.Call{Operation: api.Models}, "", ""},
		{"a custom host of another scheme", provider.Settings{CustomHost: "file:///etc"}, provider.Call{Operation: api.Models}, "", ""},
		{"an operation that is not offered", provider.Settings{}, provider.Call{Operation: api.Images}, "", ""},
		{"a passed path", provider.Settings{}, provider.Call{Operation: api.Proxy, Path: "/a%2Fb/%41//c;d", Query: "b=2&a=%2f&a"}, "eu.example.com", "/v1/a%2Fb/%41//c;d?b=2&a=%2f&a"},
		{"a passed path that looks like a host", provider.Settings{CustomHost: "http://h.example.com"}, provider.Call{Operation: api.Proxy, Path: "//evil.net/x"}, "h.example.com", "http://h.example.com//evil.net/x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.call.Method = http.MethodPost
			req, err := build(t, tt.settings, tt.call)
			if tt.line == "" {
				if _, ok := errors.AsType[*apierr.Error](err); !ok {
					t.Errorf("got %v, want an *apierr.Error", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			text := wire(t, req)
			line, _, _ := strings.Cut(text, "\r\n")
			if want := "POST " + tt.line + " HTTP/1.1"; line != want || req.URL.Host != tt.host || !strings.Contains(text, "\r\nHost: "+tt.host+"\r\n") {
				t.Errorf("request to %s: %q\nwant %s: %q", req.URL.Host, text, tt.host, want)
			}
			if strings.Contains(text, "\r\nX-Evil") {
				t.Errorf("a model became a header: %q", text)
			}
		})
	}
}

func TestHeadersOfACallHaveTheirOrder(t *testing.T) {
	client := http.Header{"X-Both": {"client"}, "Authorization": {"Bearer of-the-client"}, "X-Org": {"client"}}
	req, err := build(t, provider.Settings{Key: secret.New("key"), Options: map[string]string{"org": "mine"}},
		provider.Call{Operation: api.Models, Method: http.MethodGet, Header: client})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"X-Row": "row", "X-Both": "client", "X-Org": "mine", "Authorization": "Bearer key"} {
		if got := strings.Join(req.Header[name], ","); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

func TestACredentialGoesWhereTheRowSays(t *testing.T) {
	for name, tt := range map[string]struct {
		auth provider.Auth
		want string
	}{
		"bearer": {provider.Bearer(), "Authorization: Bearer k&y\r\n"},
		"header": {provider.Header("x-api-key"), "X-Api-Key: k&y\r\n"},
		"query":  {provider.Query("key"), "GET /v1/models?a=1&key=k%26y HTTP/1.1"},
	} {
		spec := row()
		spec.Auth = tt.auth
		target, err := provider.NewTarget(spec, provider.Settings{Key: secret.New("k&y")})
		if err != nil {
			t.Fatal(err)
		}
		req, err := provider.NewRequest(t.Context(), target, &provider.Call{Operation: api.Models, Method: http.MethodGet, Query: "a=1"})
		if err != nil {
			t.Fatal(err)
		}
		if text := wire(t, req); !strings.Contains(text, tt.want) {
			t.Errorf("%s: %q, want it to hold %q", name, text, tt.want)
		}
	}
}

// text is a body that may be opened again and again.
type text string

func (s text) Open() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(s))), nil }

func TestABodyKeepsItsLength(t *testing.T) {
	for name, tt := range map[string]struct {
		body   provider.Body
		want   string
		replay bool
	}{
		"none":    {provider.Body{}, "Content-Length: 0\r\n", false},
		"known":   {provider.Body{Source: text("hello"), Length: 5, Replayable: true}, "Content-Length: 5\r\n", true},
		"unknown": {provider.Body{Source: text("hello"), Length: -1}, "Transfer-Encoding: chunked\r\n", false},
		"empty":   {provider.Body{Source: text("")}, "Content-Length: 0\r\n", false},
	} {
		req, err := build(t, provider.Settings{}, provider.Call{Operation: api.Proxy, Path: "/x", Method: http.MethodPost, Body: tt.body})
		if err != nil {
			t.Fatal(err)
		}
		if replay := req.GetBody != nil; replay != tt.replay {
			t.Errorf("%s: can be sent again = %t, want %t", name, replay, tt.replay)
		}
		if text := wire(t, req); !strings.Contains(text, tt.want) {
			t.Errorf("%s: %q, want it to hold %q", name, text, tt.want)
		}
	}
}

// The host of a whole URL is as strict as that of the base address.
func TestAnOptionCannotLeaveTheHostOfAPath(t *testing.T) {
	for _, region := range []string{"evil.net/", "evil.net#", "a@evil.net", "a:b", `a\\b`} {
		spec := row()
		spec.BaseURL = "https://fixed.example.com"
		spec.Paths = map[api.Operation]string{api.Rerank: "https://rank.{region}.example.com/rerank"}
		target, err := provider.NewTarget(spec, provider.Settings{Options: map[string]string{"region": region}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = provider.NewRequest(t.Context(), target, &provider.Call{Operation: api.Rerank})
		if e, ok := errors.AsType[*apierr.Error](err); !ok || e.Param != "region" {
			t.Errorf("region %q: got %v", region, err)
		}
	}
}
