package ledger

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

// call sends a request with a key and returns the status and body of the response.
func (g *gateway) call(t *testing.T, method, path, key, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, g.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-gateway-api-key", key)
	req.Header.Set("x-gateway-provider", "@sim")
	req.Header.Set("Content-Type", "application/json")
	res, err := g.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// wantOK is call for what must be answered with 200.
func (g *gateway) wantOK(t *testing.T, method, path, key, body string) string {
	t.Helper()
	status, text := g.call(t, method, path, key, body)
	if status != http.StatusOK {
		t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	return text
}

// used returns the current usage of a key once it is at least want.
func (g *gateway) used(t *testing.T, id string, want float64) float64 {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		var out struct {
			Usage struct {
				Current float64 `json:"current_usage"`
			} `json:"usage_limits"`
		}
		if err := json.Unmarshal([]byte(g.wantOK(t, "GET", "/api-keys/"+id, key, "")), &out); err != nil {
			t.Fatal(err)
		}
		if out.Usage.Current >= want {
			return out.Usage.Current
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a minute the usage is %g, want %g", out.Usage.Current, want)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// TestResetSeparatesWhatWasSettledBeforeFromWhatIsSettledAfter resets the usage of a
// key right after requests, with one in flight, and kills the gateway. Requests that
// ended before are not in the count after the reset, the one in flight does, and so does
// every one that follows.
func TestResetSeparatesWhatWasSettledBeforeFromWhatIsSettledAfter(t *testing.T) {
	const each = 20 // tokens of a request, and of its estimate if the kill comes before its settlement
	arrived, response := make(chan bool), make(chan bool)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "slow") {
			arrived <- true
			<-response
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":"c1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":15,"completion_tokens":5,"total_tokens":20}}`)
	}))
	defer provider.Close()
	const fast, slow = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`, `{"model":"m","messages":[{"role":"user","content":"slow"}]}`
	data := t.TempDir()
	g := start(t, data, provider.URL)
	var made struct{ ID, Key string }
	text := g.wantOK(t, "POST", "/api-keys/workspace/service", key, `{"name":"k","workspace_id":"default","scopes":["completions.write"],"usage_limits":{"type":"tokens","credit_limit":1000000}}`)
	if err := json.Unmarshal([]byte(text), &made); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; { // until the gateway knows the key
		if status, _ := g.call(t, "GET", "/api-keys/self/details", made.Key, ""); status == http.StatusOK || time.Now().After(deadline) {
			break
		}
	}
	for round := range 3 {
		for range 4 {
			g.wantOK(t, "POST", "/chat/completions", made.Key, fast)
		}
		done := make(chan bool)
		go func() {
			defer close(done)
			g.call(t, "POST", "/chat/completions", made.Key, slow)
		}()
		waittest.Receive(t, arrived, "the request at the provider")
		g.wantOK(t, "PUT", "/api-keys/"+made.ID, key, `{"reset_usage":true}`)
		response <- true
		waittest.Receive(t, done, "the response")
		if got := g.used(t, made.ID, each); got != each {
			t.Errorf("round %d: with a request in flight the usage is %g tokens after the reset, want %d", round, got, each)
		}
		for range 4 {
			g.wantOK(t, "POST", "/chat/completions", made.Key, fast)
		}
		g.wantOK(t, "PUT", "/api-keys/"+made.ID, key, `{"reset_usage":true}`)
		g.wantOK(t, "POST", "/chat/completions", made.Key, fast)
		g.kill()
		g = start(t, data, provider.URL)
		g.wantOK(t, "POST", "/chat/completions", made.Key, fast)
		if got := g.used(t, made.ID, 2*each); got != 2*each {
			t.Errorf("round %d: after a kill the usage is %g tokens, want the %d of the requests since the reset", round, got, 2*each)
		}
	}
	g.stop(t)
}
