package security

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// Some providers repeat in an error the credential that they did not accept. A client of
// a managed provider does not know it, and must not learn it.
func TestErrorsOfProvidersRepeatNoStoredCredential(t *testing.T) {
	t.Parallel()
	spelled := ""
	p := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		quoted, _ := json.Marshal("Incorrect API key provided: ")
		text := strings.TrimSuffix(string(quoted), `"`) + spelled + `"`
		response := `{"error":{"message":` + text + `,"code":"invalid_api_key"}}`
		w.Header().Set("X-Received", "Bearer "+spelled)
		w.Header().Set("X-Request-Id", "req_1")
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(string(body), "zipped") {
			w.Header().Set("Content-Encoding", "gzip")
			response = zipped(response)
		}
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, response)
	})
	g := launch(t, options{
		settings: "version: 1\nlogs: {level: full}\nproviders:\n  - {slug: stored, provider: openai, api_key: \"${STORED_KEY}\", custom_host: \"" + p.url + "\"}\n",
		env:      []string{"STORED_KEY=" + storedKey},
	})
	escape := func(form string) string {
		var out strings.Builder
		for _, c := range []byte(storedKey) {
			out.WriteString(fmt.Sprintf(form, c))
		}
		return out.String()
	}
	for name, text := range map[string]string{
		"as it is": storedKey, "in base64": base64.StdEncoding.EncodeToString([]byte(storedKey)), "as that of a user": base64.URLEncoding.EncodeToString([]byte("ab:" + storedKey + "!")),
		"after a character": base64.StdEncoding.EncodeToString([]byte(":" + storedKey)), "in hexadecimal": hex.EncodeToString([]byte(storedKey)),
		"escaped for JSON": escape(`\u%04x`), "escaped for a URL": escape("%%%02X"), "escaped for HTML": escape("&#%d;"), "escaped for JSON in part": `\u0073` + storedKey[1:],
	} {
		spelled = text
		for path, body := range map[string]string{
			"/v1/chat/completions": chatBody,
			"/v1/messages":         `{"model":"gpt-4o","max_tokens":9,"messages":[{"role":"user","content":"hello"}]}`,
			"/v1/invented":         chatBody,
			"/v1/zipped":           strings.Replace(chatBody, "hello", "zipped", 1),
		} {
			attack(t, "credential theft", "an error with the credential "+name+" at "+path, func(t *testing.T) {
				got := g.do(t, "POST", path, body, "x-gateway-api-key", rootKey, "x-gateway-provider", "@stored")
				if got.status != 401 || got.err != nil || !regexp.MustCompile(`Incorrect API key provided: .{0,4}\*\*\*`).Match(got.body) || got.header.Get("X-Request-Id") != "req_1" {
					t.Errorf("status %d (%v), want 401 with the rest of the message: %s", got.status, got.err, got.body)
				}
				if strings.Contains(string(got.body), text) || strings.Contains(strings.Join(got.header.Values("X-Received"), ""), text) {
					t.Errorf("the client received the credential: %v %s", got.header, got.body)
				}
				id := got.header.Get("x-gateway-request-id")
				waittest.Until(t, "the request is in the log", func() bool { return g.as(t, rootKey, "GET", "/v1/logs/"+id, "").status == 200 })
				if entry := g.as(t, rootKey, "GET", "/v1/logs/"+id, "").ok(t); strings.Contains(string(entry.body), text) {
					t.Errorf("the log has the credential: %s", entry.body)
				}
			})
		}
		attack(t, "credential theft", "the client's own credential "+name+" passes", func(t *testing.T) {
			spelled = clientKey
			got := g.do(t, "POST", "/v1/invented", chatBody, toCustomHost(rootKey, p)...)
			if !strings.Contains(string(got.body), clientKey) || got.header.Get("X-Received") == "" {
				t.Errorf("an error about the client's own credential was changed: %v %s", got.header, got.body)
			}
		})
	}
}

// A successful response may repeat the stored credential in a header too.
func TestHeadersOfResponsesRepeatNoStoredCredential(t *testing.T) {
	t.Parallel()
	sent := ""
	p := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Received", "Bearer "+sent)
		w.Header().Set("X-Upstream-Id", "req_1")
		if strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}`)
	})
	g := launch(t, options{
		settings: "version: 1\nproviders:\n  - {slug: stored, provider: openai, api_key: \"${STORED_KEY}\", custom_host: \"" + p.url + "\"}\n",
		env:      []string{"STORED_KEY=" + storedKey},
	})
	for _, path := range []string{"/v1/chat/completions", "/v1/invented"} {
		for _, body := range []string{chatBody, strings.Replace(chatBody, "{", `{"stream":true,`, 1)} {
			attack(t, "credential theft", fmt.Sprintf("headers with the credential at %s, stream %t", path, body != chatBody), func(t *testing.T) {
				sent = storedKey
				got := g.do(t, "POST", path, body, "x-gateway-api-key", rootKey, "x-gateway-provider", "@stored")
				if got.status != 200 || got.header.Get("X-Received") != "" {
					t.Errorf("status %d, %v %s", got.status, got.header, got.body)
				}
				if path == "/v1/invented" && got.header.Get("X-Upstream-Id") != "req_1" {
					t.Errorf("other headers do not pass: %v", got.header)
				}
			})
		}
	}
	attack(t, "credential theft", "a header with the client's own credential passes", func(t *testing.T) {
		sent = clientKey
		if got := g.do(t, "POST", "/v1/invented", chatBody, toCustomHost(rootKey, p)...); got.header.Get("X-Received") != "Bearer "+clientKey {
			t.Errorf("status %d, %v", got.status, got.header)
		}
	})
}
