package controlplane_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/identity/access"
	"modelgate/internal/testing/gatewaytest"
)

const chat = `{"model":"sim-1","messages":[{"role":"user","content":"hi"}]}`

func TestTheLogIsReadWithItsScopes(t *testing.T) {
	key := func(name, scopes string) string {
		return fmt.Sprintf("  - {name: %s, sha256: %s, scopes: [%s]}\n", name, access.HashKey("mg-key-of-a-test-"+name), scopes)
	}
	g := gatewaytest.New(t, gatewaytest.Options{Settings: "logs: {level: full}\nkeys:\n" + key("lister", "logs.list") + key("viewer", "logs.view") + key("reader", "logs.list, logs.view") + key("writer", "completions.write")})
	made := g.Post("/chat/completions", chat, "x-gateway-trace-id", "one", "x-gateway-metadata", `{"team":"a"}`)
	id := made.Header.Get("x-gateway-request-id")
	if made.Status != 200 || id == "" {
		t.Fatalf("status %d, id %q", made.Status, id)
	}
	g.Entry(made)
	for _, tt := range []struct {
		name, key, method, path string
		status                  int
		says                    string
	}{
		{"list", "mg-key-of-a-test-lister", "GET", "/logs", 200, id},
		{"one", "mg-key-of-a-test-viewer", "GET", "/logs/" + id, 200, `"trace_id":"one"`},
		{"list without the scope", "mg-key-of-a-test-viewer", "GET", "/logs", 403, "logs.list"},
		{"one without the scope", "mg-key-of-a-test-lister", "GET", "/logs/" + id, 403, "logs.view"},
		{"neither", "mg-key-of-a-test-writer", "GET", "/logs", 403, "logs.list"},
		{"wrong key", "mg-key-of-a-test-nobody", "GET", "/logs", 401, "invalid_api_key"},
		{"no such entry", "mg-key-of-a-test-viewer", "GET", "/logs/01a1fe06-d81f-78a8-8999-000000000000", 404, "not_found"},
		{"no id", "mg-key-of-a-test-viewer", "GET", "/logs/x", 400, `"param":"id"`},
		{"a path that climbs", "mg-key-of-a-test-viewer", "GET", "/logs/../models", 400, `"param":"path"`},
		{"another method", "mg-key-of-a-test-viewer", "DELETE", "/logs/" + id, 405, "GET"},
		{"by trace", "mg-key-of-a-test-lister", "GET", "/logs?trace_id=one", 200, id},
		{"by another trace", "mg-key-of-a-test-lister", "GET", "/logs?trace_id=two", 200, `"data":[]`},
		{"by metadata", "mg-key-of-a-test-lister", "GET", "/logs?metadata.team=a", 200, id},
		{"by other metadata", "mg-key-of-a-test-lister", "GET", "/logs?metadata.team=b", 200, `"data":[]`},
		{"by a text", "mg-key-of-a-test-reader", "GET", "/logs?text=SIM-1", 200, id},
		{"by a text of metadata", "mg-key-of-a-test-reader", "GET", "/logs?text=TEAM", 200, id},
		{"by a text of its body", "mg-key-of-a-test-reader", "GET", "/logs?text=%22Role%22%3A%22USER%22", 200, id},
		{"by another text", "mg-key-of-a-test-reader", "GET", "/logs?text=sim-2", 200, `"data":[]`},
		{"by a text with the list's scope alone", "mg-key-of-a-test-lister", "GET", "/logs?text=sim-1", 403, "logs.view"},
		{"by a text with the other scope alone", "mg-key-of-a-test-viewer", "GET", "/logs?text=sim-1", 403, "logs.list"},
		{"by a text that is short", "mg-key-of-a-test-reader", "GET", "/logs?text=ab", 400, `"param":"text"`},
		{"by no text", "mg-key-of-a-test-reader", "GET", "/logs?text=", 400, `"param":"text"`},
		{"watched by a text", "mg-key-of-a-test-reader", "GET", "/logs/tail?text=sim-1", 400, `"param":"text"`},
		{"from the future", "mg-key-of-a-test-lister", "GET", "/logs?from=2099-01-01T00:00:00Z", 200, `"data":[]`},
		{"a misspelt filter", "mg-key-of-a-test-lister", "GET", "/logs?modle=x", 400, "modle"},
		{"a filter twice", "mg-key-of-a-test-lister", "GET", "/logs?model=x&model=y", 400, "2 times"},
		{"a bad time", "mg-key-of-a-test-lister", "GET", "/logs?from=yesterday", 400, `"param":"from"`},
		{"a bad limit", "mg-key-of-a-test-lister", "GET", "/logs?limit=0", 400, `"param":"limit"`},
		{"a bad flag", "mg-key-of-a-test-lister", "GET", "/logs?stream=maybe", 400, `"param":"stream"`},
		{"a bad cursor", "mg-key-of-a-test-lister", "GET", "/logs?cursor=zz", 400, "cursor"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := g.Do(g.Request(tt.method, tt.path, "", "x-gateway-api-key", tt.key))
			if res.Status != tt.status || !strings.Contains(string(res.Body), tt.says) {
				t.Errorf("%s %s: %d %.400s; want %d with %s", tt.method, tt.path, res.Status, res.Body, tt.status, tt.says)
			}
			if res.Header.Get("Content-Type") != "application/json" {
				t.Errorf("Content-Type = %q", res.Header.Get("Content-Type"))
			}
			if tt.status == http.StatusMethodNotAllowed && res.Header.Get("Allow") != "GET" {
				t.Errorf("Allow = %q, want GET", res.Header.Get("Allow"))
			}
		})
	}
}
