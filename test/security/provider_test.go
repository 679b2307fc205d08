package security

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// provider stands for a model provider, or for an attacker's own server, and
// records what it receives. It is safe for concurrent use.
type provider struct {
	root   string // http://127.0.0.1:port
	url    string // root with /v1, a base address for custom_host
	server *httptest.Server

	mu       sync.Mutex
	requests []received // guarded by mu
}

// received is a request that a provider received.
type received struct {
	method string
	target string // path and query as on the wire
	header http.Header
	body   []byte
}

// newProvider starts a provider that ends with the test. A nil handler answers
// every request with a chat completion, or a stream of one when asked for.
func newProvider(t *testing.T, handler http.HandlerFunc) *provider {
	t.Helper()
	p := startProvider(handler)
	t.Cleanup(p.server.Close)
	return p
}

func startProvider(handler http.HandlerFunc) *provider {
	if handler == nil {
		handler = respondChat
	}
	p := &provider{}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		p.mu.Lock()
		p.requests = append(p.requests, received{r.Method, r.RequestURI, r.Header.Clone(), body})
		p.mu.Unlock()
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		handler(w, r)
	}))
	p.root, p.url = p.server.URL, p.server.URL+"/v1"
	return p
}

// seen returns the requests received since the last call of reset.
func (p *provider) seen() []received {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]received(nil), p.requests...)
}

func (p *provider) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = nil
}

// got reports whether a secret is anywhere in what the provider received.
func (p *provider) got(secret string) bool {
	for _, r := range p.seen() {
		if strings.Contains(r.target, secret) || strings.Contains(string(r.body), secret) {
			return true
		}
		for _, values := range r.header {
			if strings.Contains(strings.Join(values, "\n"), secret) {
				return true
			}
		}
	}
	return false
}

const (
	chatResponse = `{"id":"c1","object":"chat.completion","created":1700000000,"model":"gpt-4o","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`
	chatStream   = `data: {"id":"c1","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4o","choices":[{"index":0,"delta":{"role":"assistant","content":"hi"},"finish_reason":null}]}` + "\n\n" +
		`data: {"id":"c1","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4o","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" +
		"data: [DONE]\n\n"
)

func respondChat(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if strings.Contains(strings.ReplaceAll(string(body), " ", ""), `"stream":true`) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, chatStream)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, chatResponse)
}
