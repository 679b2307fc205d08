package conformance

import (
	"strings"
	"testing"
)

// modelKey is a gateway key that may send model requests, serverKey one that may also
// change providers.
const modelKey, serverKey = "mg-conformance-model-0123456789", "mg-conformance-server-0123456789"

// TestLibrariesOfCohereAndOllamaReachTheirVendor proves whom the paths of these
// libraries reach beyond those that every vendor has.
func TestLibrariesOfCohereAndOllamaReachTheirVendor(t *testing.T) {
	cohere, ollama := newProvider(t, nil), newProvider(t, nil)
	g := launchFor(t, strings.NewReplacer("COHERE", cohere.root, "OLLAMA", ollama.root, "MODEL", hashOf(modelKey), "SERVER", hashOf(serverKey)).Replace(`
version: 1
providers:
  - {slug: coh, provider: cohere, api_key: "${STORED_KEY}", custom_host: "COHERE"}
  - {slug: oll, provider: ollama, custom_host: "OLLAMA"}
keys:
  - {name: model, sha256: MODEL, scopes: [completions.write, models.list, providers.read]}
  - {name: server, sha256: SERVER, scopes: [completions.write, providers.update]}
`), "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
	ask := func(t *testing.T, key, method, path, body string, header ...string) response {
		t.Helper()
		return g.do(t, method, path, body, append([]string{"Authorization", "Bearer " + key}, header...)...)
	}
	library := []string{"X-Fern-SDK-Name", "cohere"}
	for _, tt := range []struct{ method, path, body string }{
		{"POST", "/v1/chat", `{"message":"hi"}`},
		{"POST", "/v1/tokenize", `{"model":"command-a","text":"hi"}`},
		{"GET", "/v1/datasets/usage", ""},
		{"GET", "/v1/models?page_size=2", ""},
		{"GET", "/v1/models/command-a", ""},
		{"DELETE", "/v1/connectors/c1", ""},
	} {
		prove(t, "M-204", "Cohere's library: "+tt.method+" "+tt.path, func(t *testing.T) {
			ask(t, bootstrapKey, tt.method, tt.path, tt.body, library...).wantOK(t)
			in := cohere.only(t)
			if in.method != tt.method || in.uri != tt.path || string(in.body) != tt.body || in.header.Get("Authorization") != "Bearer "+storedKey {
				t.Errorf("the provider got %s %s %s with %q", in.method, in.uri, in.body, in.header.Get("Authorization"))
			}
			if got := ask(t, bootstrapKey, tt.method, tt.path, tt.body, "X-Fern-SDK-Name", "another"); got.status == 200 && !strings.HasPrefix(tt.path, "/v1/models?") {
				t.Errorf("another library: status %d: %s", got.status, got.body)
			}
			for _, in := range cohere.requests() { // to list its models, a gateway asks with another query
				if in.uri == tt.path {
					t.Errorf("another library reaches %s %s", in.method, in.uri)
				}
			}
			cohere.forget()
		})
	}
	prove(t, "M-204", "Cohere's library: ranking is the gateway's own route", func(t *testing.T) {
		got := ask(t, bootstrapKey, "POST", "/v1/rerank", `{"model":"@coh/rerank-v3.5","query":"q","documents":["a"]}`, library...)
		if in := cohere.only(t); in.uri != "/v2/rerank" || got.header.Get("x-gateway-provider") != "cohere" {
			t.Errorf("status %d, the provider got %s: %s", got.status, in.uri, got.body)
		}
	})
	for _, tt := range []struct{ method, path, body string }{
		{"POST", "pull", `{"model":"llama3"}`},
		{"POST", "push", `{"model":"llama3"}`},
		{"POST", "create", `{"model":"b","from":"a"}`},
		{"POST", "copy", `{"source":"a","destination":"b"}`},
		{"DELETE", "delete", `{"model":"llama3"}`},
		{"POST", "blobs/sha256:0a", `{}`},
	} {
		prove(t, "M-204", "changing the models of Ollama: "+tt.path, func(t *testing.T) {
			ollama.forget()
			for _, path := range []string{"/api/", "/v1/api/", "/v1/API/", "/v1/%61pi/", "/v1/api%2F"} {
				got := ask(t, modelKey, tt.method, path+tt.path, tt.body, "x-gateway-provider", "@oll")
				if got.status/100 != 4 {
					t.Errorf("%s%s without the scope: status %d: %s", path, tt.path, got.status, got.body)
				}
			}
			if got := ask(t, modelKey, tt.method, "/api/"+tt.path, tt.body); got.status != 403 || !strings.Contains(string(got.body), "providers.update") {
				t.Errorf("without the scope: status %d: %s, want 403 and the scope", got.status, got.body)
			}
			ollama.wantNoRequests(t)
			ask(t, serverKey, tt.method, "/api/"+tt.path, tt.body).wantOK(t)
			if in := ollama.only(t); in.method != tt.method || in.uri != "/api/"+tt.path || string(in.body) != tt.body {
				t.Errorf("with the scope the server got %s %s %s", in.method, in.uri, in.body)
			}
		})
	}
	prove(t, "M-204", "reading the models of Ollama needs no such scope", func(t *testing.T) {
		ask(t, modelKey, "POST", "/api/show", `{"model":"llama3"}`).wantOK(t)
		if in := ollama.only(t); in.uri != "/api/show" {
			t.Errorf("the server got %s", in.uri)
		}
	})
}
