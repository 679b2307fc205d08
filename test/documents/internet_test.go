package documents_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"testing"

	"modelgate/internal/testing/oidctest"
	"modelgate/internal/testing/samltest"
	"modelgate/internal/testing/toolservertest"
)

// serveInternet serves the providers and companies of the pages, and the gateway of a machine at
// https://gateway.example.com.
func serveInternet(t *testing.T) {
	t.Helper()
	of := internetOf(t, "api.openai.com", "api.anthropic.com", "api.groq.com", "api.fireworks.ai", "models.example.com",
		"tracker.example.com", "notes.example.com", "pets.example.com", "travel.example.com", "vault.example.com",
		"hooks.example.com", "checks.example.com", "example.okta.com", "id.example.com")
	tools := toolservertest.New(t)
	for _, name := range []string{"search", "create_issue", "delete_issue"} {
		tools.Tools = append(tools.Tools, `{"name":"`+name+`","description":"Does it.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}`)
	}
	of["tracker.example.com"].handler = tools
	of["pets.example.com"].handler = document(`{"openapi": "3.1.0", "info": {"title": "Pets", "version": "1"},
		"servers": [{"url": "https://pets.example.com/v1"}],
		"paths": {"/pets": {"get": {"operationId": "listPets", "responses": {"200": {"description": "the pets"}}}}}}`)
	of["travel.example.com"].handler = http.HandlerFunc(serveAgent)
	of["vault.example.com"].handler = http.HandlerFunc(serveVault)
	of["hooks.example.com"].handler = document(`{}`)
	of["checks.example.com"].handler = document(`{"verdict": true}`)
	identity := oidctest.New(t)
	identity.URL = "https://example.okta.com"
	saml := samltest.New(t, "https://example.okta.com/saml")
	of["example.okta.com"].handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/app/exk1/sso/saml/metadata" {
			io.WriteString(w, saml.Metadata())
			return
		}
		serveIdentity(identity, w, r)
	})
	of["notes.example.com"].handler = tools
	key := identity.Key()
	keys, err := json.Marshal(map[string]any{"keys": []any{key.Public()}})
	if err != nil {
		t.Fatal(err)
	}
	of["id.example.com"].handler = document(string(keys))
	serveTLS(t, front, []string{"gateway.example.com"}, httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "127.0.0.1:8787"}))
}

// document serves one document at every path.
func document(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, text)
	})
}

// serveIdentity serves what an identity provider serves.
func serveIdentity(p *oidctest.Provider, w http.ResponseWriter, r *http.Request) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host, r.RequestURI = "https", r.Host, ""
	resp, err := p.Do(r, false)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.WriteHeader(resp.StatusCode)
	io.Copy(w, resp.Body)
}

// serveVault serves a Vault whose only secret is at llm/groq.
// https://developer.hashicorp.com/vault/api-docs/auth/approle#login-with-approle
func serveVault(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/v1/auth/approle/login":
		io.WriteString(w, `{"auth": {"client_token": "hvs.1", "lease_duration": 3600}}`)
	case "/v1/secret/data/llm/groq":
		io.WriteString(w, `{"data": {"data": {"api_key": "gsk-1"}, "metadata": {"version": 1}}}`)
	default:
		http.Error(w, `{"errors": []}`, http.StatusNotFound)
	}
}

// serveAgent serves an A2A agent that has done everything.
// https://a2a-protocol.org/latest/specification/
func serveAgent(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/.well-known/agent-card.json" {
		io.WriteString(w, `{"name": "Travel", "description": "Books trains", "version": "1", "capabilities": {}, "skills": [],
			"supportedInterfaces": [{"url": "https://travel.example.com/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]}`)
		return
	}
	var m struct{ ID json.RawMessage }
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, `{"jsonrpc": "2.0", "id": %s, "result": {"task": {"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_COMPLETED"}}}}`, m.ID)
}
