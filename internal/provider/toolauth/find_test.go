package toolauth_test

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"modelgate/internal/provider/toolauth"
	"modelgate/internal/provider/toolserver"
)

// documents answers with a status and a body for each path, 404 for others.
type documents map[string]struct {
	status int
	body   string
}

func (d documents) Do(req *http.Request, _ bool) (*http.Response, error) {
	f, ok := d[req.URL.Host+req.URL.Path]
	if !ok {
		f.status = http.StatusNotFound
	}
	return &http.Response{StatusCode: f.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(f.body))}, nil
}

// TestOnlyAValidDocumentEndsAnIssuer looks for the issuer A of a connection.
func TestOnlyAValidDocumentEndsAnIssuer(t *testing.T) {
	const resource, metadata = "s.example/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server"
	about := func(issuer string) string {
		return `{"issuer":"https://` + issuer + `","token_endpoint":"https://` + issuer + `/token","authorization_endpoint":"https://` + issuer +
			`/authorize","code_challenge_methods_supported":["S256"]}`
	}
	both := `{"resource":"https://s.example/mcp","authorization_servers":["https://a.example","https://b.example"]}`
	other := `{"resource":"https://s.example/mcp","authorization_servers":["https://b.example"]}`
	for name, f := range map[string]struct {
		resource, a   int
		body          string
		refused, fine bool
	}{
		"both are there":                 {200, 200, both, false, true},
		"A is away":                      {200, 503, both, false, false},
		"A has too many requests":        {200, 429, both, false, false},
		"A has no metadata":              {200, 404, both, false, false},
		"another issuer":                 {200, 200, other, true, false},
		"the document is away":           {503, 200, "", false, false},
		"the document is asked too much": {429, 200, "", false, false},
		"the document is gone":           {404, 200, "", false, false},
	} {
		d := documents{resource: {f.resource, f.body}, "a.example" + metadata: {f.a, about("a.example")}, "b.example" + metadata: {200, about("b.example")},
			"s.example" + metadata: {200, about("s.example")}}
		c := toolauth.New(d, func() time.Time { return time.Unix(1_000_000, 0) })
		s := &toolserver.Server{ID: "s", URL: &url.URL{Scheme: "https", Host: "s.example", Path: "/mcp"}, Auth: toolserver.AuthUser}
		m, err := c.Find(t.Context(), s, "https://a.example", nil)
		if (err == nil) != f.fine || errors.Is(err, toolauth.ErrRefused) != f.refused {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
		any, err := c.Discover(t.Context(), s, nil)
		if f.resource != 200 && f.resource != 404 && err == nil {
			t.Errorf("%s: the server itself is taken for its issuer: %+v", name, any)
		}
	}
}
