package security

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/identity/access"
	"modelgate/internal/testing/waittest"
)

// TestGatewayKeysInHeadersReachNoProvider puts gateway keys where no gateway key
// belongs: into headers of a client's own invention, trailers and the query.
func TestGatewayKeysInHeadersReachNoProvider(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var arrived http.Header
	p := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		arrived = r.Header.Clone()
		for name, values := range r.Trailer {
			arrived["Trailer "+name] = values
		}
		arrived["Query"] = []string{r.URL.RawQuery}
		io.WriteString(w, `{}`)
	})
	g := launch(t, options{settings: "version: 1\nproviders:\n  - {slug: stored, provider: openai, api_key: \"${STORED_KEY}\", custom_host: \"" + p.url + "\"}\n",
		env: []string{"STORED_KEY=" + storedKey}})
	key, other := g.key(t, rootKey, "default", []string{"completions.write"}, ""), access.NewKey().Reveal()
	session := access.NewSessionToken().Reveal()
	send := func(t *testing.T, key, query string, header ...string) (response, http.Header) {
		t.Helper()
		mu.Lock()
		arrived = nil
		mu.Unlock()
		got := g.do(t, "POST", "/v1/files"+query, `{}`, append([]string{"x-gateway-api-key", key, "x-gateway-provider", "@stored"}, header...)...)
		got.ok(t)
		mu.Lock()
		defer mu.Unlock()
		if arrived == nil {
			t.Fatal("the provider received nothing")
		}
		return got, arrived
	}
	for name, value := range map[string]string{
		"bare":                    key,
		"as a bearer token":       "Bearer " + key,
		"inside of other text":    `{"token":"` + key + `"}`,
		"joined to a word":        "token" + key,
		"another gateway key":     other,
		"another as bearer token": "bearer " + other,
		"a session's token":       "session=" + session + "; path=/",
	} {
		attack(t, "credential theft", "a gateway key in a header of the client's invention: "+name, func(t *testing.T) {
			got, header := send(t, key, "?limit=1", "X-Invented", value, "X-Kept", "img-"+other[3:]+", omg-1 mg-short", "X-Empty", "")
			if v, ok := header["X-Invented"]; ok {
				t.Errorf("the provider received X-Invented: %q", v)
			}
			if v := header.Get("X-Kept"); !strings.HasPrefix(v, "img-") {
				t.Errorf("the provider received X-Kept: %q", v)
			}
			if told := got.header.Get("x-gateway-params"); !strings.Contains(told, "x-invented;dropped") || strings.Contains(told, "x-kept") {
				t.Errorf("x-gateway-params: %q", told)
			}
			if q := header.Get("Query"); q != "limit=1" {
				t.Errorf("the provider received the query %q", q)
			}
		})
		attack(t, "credential theft", "a gateway key in the query: "+name, func(t *testing.T) {
			escaped := url.QueryEscape(value)
			for _, parameter := range []string{"x=" + escaped, escaped, escaped + "=1", "x=" + escaped + "+%zz"} {
				if _, header := send(t, key, "?limit=1&"+parameter); header.Get("Query") != "limit=1" {
					t.Errorf("the provider received the query %q", header.Get("Query"))
				}
			}
			if _, header := send(t, key, "?"+escaped); header.Get("Query") != "" {
				t.Errorf("the provider received the query %q", header.Get("Query"))
			}
		})
		attack(t, "credential theft", "a gateway key in a header to forward: "+name, func(t *testing.T) {
			got := g.do(t, "POST", "/v1/chat/completions", chatBody, "x-gateway-api-key", key, "x-gateway-provider", "@stored",
				"X-Invented", value, "x-gateway-forward-headers", "X-Invented")
			if got.status != http.StatusBadRequest || !strings.Contains(string(got.body), "contains the gateway key") {
				t.Errorf("answered %d %s", got.status, got.body)
			}
		})
	}
	for _, path := range []string{"/v1/x/" + key, "/v1/x/" + other + "/y", "/v1/x/a" + key + "b", "/v1/x/" + strings.Replace(key, "-", "%2D", 1)} {
		attack(t, "credential theft", "a gateway key in the path: "+strings.NewReplacer(key, "KEY", other, "OTHER").Replace(path), func(t *testing.T) {
			mu.Lock()
			arrived = nil
			mu.Unlock()
			got := g.do(t, "GET", path, "", "x-gateway-api-key", key, "x-gateway-provider", "@stored", "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
			if got.status != http.StatusBadRequest || !strings.Contains(string(got.body), "the path of the request contains a gateway key") {
				t.Errorf("answered %d %s", got.status, got.body)
			}
			if strings.Contains(string(got.body), key) || strings.Contains(string(got.body), other) {
				t.Errorf("the error repeats the key: %s", got.body)
			}
			mu.Lock()
			defer mu.Unlock()
			if arrived != nil {
				t.Error("the provider received the request")
			}
		})
	}
	attack(t, "log and export", "gateway keys in paths and user agents", func(t *testing.T) {
		g.do(t, "GET", "/v1/x/y", "", "x-gateway-api-key", key, "x-gateway-provider", "@stored", "User-Agent", "client/1 ("+other+")").ok(t)
		var list string
		waittest.Until(t, "the entries are written", func() bool {
			list = string(g.as(t, rootKey, "GET", "/v1/logs?limit=100", "").ok(t).body)
			return strings.Count(list, `"path":"/v1/x/`) >= 5 && strings.Contains(list, `"path":"/v1/x/y"`)
		})
		if decoded := strings.ReplaceAll(list, "%2D", "-"); strings.Contains(decoded, key) || strings.Contains(decoded, other) {
			t.Errorf("the log repeats a key: %s", list)
		}
		for _, path := range []string{"/v1/x/***", "/v1/x/***/y"} {
			if !strings.Contains(list, `"path":"`+path+`"`) {
				t.Errorf("the log has no entry of %s: %s", path, list)
			}
		}
	})
	attack(t, "credential theft", "a gateway key in a trailer", func(t *testing.T) {
		req, err := http.NewRequestWithContext(t.Context(), "POST", g.root+"/v1/files", io.MultiReader(strings.NewReader("data")))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"X-Gateway-Api-Key": {key}, "X-Gateway-Provider": {"@stored"}, "Content-Type": {"application/octet-stream"}}
		req.Trailer = http.Header{"X-Invented": {key}, "X-Checksum": {"abc"}}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		mu.Lock()
		defer mu.Unlock()
		if got := arrived["Trailer X-Checksum"]; len(got) != 1 {
			t.Errorf("the provider received the trailers %q", arrived)
		}
		if got := arrived["Trailer X-Invented"]; len(got) > 0 {
			t.Errorf("the provider received the trailer %q", got)
		}
	})
}
