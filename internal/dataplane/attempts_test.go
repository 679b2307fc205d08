package dataplane_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// failing is a provider whose chat completions fail and that embeds. It counts
// the requests of each kind.
type failing struct{ chats, embeddings atomic.Int64 }

func (p *failing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/invoke") {
		p.embeddings.Add(1)
		io.WriteString(w, `{"embedding":[1],"inputTextTokenCount":2}`)
		return
	}
	p.chats.Add(1)
	w.WriteHeader(http.StatusInternalServerError)
	io.WriteString(w, `{"error":{"message":"it failed"}}`)
}

// newFailing starts a gateway whose requests may make three attempts.
func newFailing(t *testing.T) (*gatewaytest.Gateway, *failing) {
	p := new(failing)
	settings := strings.Replace(pairSettings, "limits: {", "limits: {attempts: 3, ", 1)
	return gatewaytest.New(t, gatewaytest.Options{Settings: settings, Upstream: p}), p
}

func TestRequestMakesAsManyAttemptsAsTheSettingAllows(t *testing.T) {
	t.Parallel()
	g, p := newFailing(t)
	for _, tt := range []struct {
		targets, attempts int
		code              any
	}{{2, 2, nil}, {3, 3, nil}, {4, 3, "attempts_exhausted"}, {9, 3, "attempts_exhausted"}} {
		p.chats.Store(0)
		config := `{"strategy":{"mode":"fallback"},"targets":[` + strings.Repeat(`{"provider":"@chat"},`, tt.targets-1) + `{"provider":"@chat"}]}`
		res := g.Post("/chat/completions", plainChat, "x-gateway-provider", "", "x-gateway-config", config)
		status := 500
		if tt.code != nil {
			status = 503
		}
		if e := errorOf(t, string(res.Body)); res.Status != status || e["code"] != tt.code || p.chats.Load() != int64(tt.attempts) {
			t.Errorf("a fallback over %d targets: status %d, code %v after %d requests; want %d, %v after %d",
				tt.targets, res.Status, e["code"], p.chats.Load(), status, tt.code, tt.attempts)
		}
		if message := fmt.Sprint(errorOf(t, string(res.Body))["message"]); tt.code != nil && (!strings.Contains(message, " 3 attempts ") || !strings.Contains(message, "limits.attempts")) {
			t.Errorf("a fallback over %d targets: the message %q does not name the limit of 3 and its setting", tt.targets, message)
		}
	}
}

func TestInputsThatAreSentOneByOneAreAsManyAttempts(t *testing.T) {
	t.Parallel()
	g, p := newFailing(t)
	const bedrock = `{"provider":"@converse"}`
	const second = `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@chat"},` + bedrock + `]}`
	for _, tt := range []struct {
		name, config   string
		inputs, status int
		left           int // attempts that the error says are left
	}{
		{"as many as are allowed", bedrock, 3, 200, 0},
		{"one more", bedrock, 4, 400, 3},
		{"as many as are left after a failure", second, 2, 200, 0},
		{"one more than are left after a failure", second, 3, 400, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p.embeddings.Store(0)
			res := g.Post("/embeddings", `{"model":"`+titan+`","input":`+manyInputs(tt.inputs)+`}`, "x-gateway-provider", "", "x-gateway-config", tt.config)
			if res.Status != tt.status {
				t.Fatalf("%d inputs: status %d, want %d: %s", tt.inputs, res.Status, tt.status, res.Body)
			}
			if tt.status == 200 {
				if n := p.embeddings.Load(); n != int64(tt.inputs) || len(res.JSON(t)["data"].([]any)) != tt.inputs {
					t.Errorf("%d inputs: %d requests; want one for each and as many vectors: %s", tt.inputs, n, res.Body)
				}
				return
			}
			e := errorOf(t, string(res.Body))
			said := fmt.Sprintf("%d inputs need as many attempts; a request may make 3 attempts (limits.attempts in the gateway's settings) and has %d left", tt.inputs, tt.left)
			if e["code"] != "attempts_exhausted" || e["param"] != "input" || !strings.Contains(fmt.Sprint(e["message"]), said) || p.embeddings.Load() != 0 {
				t.Errorf("%d inputs: %d requests, then %v; want none, and that %s", tt.inputs, p.embeddings.Load(), e, said)
			}
		})
	}
}

// 16 requests of 4 MB each are 64 MB.
func TestRequestsForSingleInputsAreLimitedTogetherBySize(t *testing.T) {
	t.Parallel()
	p := new(failing)
	g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings, Upstream: p})
	const limit, n = 64 << 20, 16
	const before, after, between = `{"model":"` + titan + `","user":"`, `","input":`, `}`
	input := `["` + strings.Repeat("a", 16) + `"` + strings.Repeat(`,"a"`, n-1) + `]`
	for extra, want := range map[int]int{0: 200, 1: 413} {
		list := input
		if extra > 0 {
			list = strings.Replace(input, "a", "aa", 1)
		}
		others := (limit - len(input)) / n // bytes of each request except its input
		if len(input)+n*others != limit {
			t.Fatalf("%d bytes of inputs can't be made up to %d", len(input), limit)
		}
		user := strings.Repeat("u", others-len(before)-len(after)-len(between))
		p.embeddings.Store(0)
		res := g.Post("/embeddings", before+user+after+list+between, "x-gateway-provider", "@converse")
		if sent := p.embeddings.Load(); res.Status != want || (sent > 0) != (want == 200) {
			t.Errorf("requests of %d bytes together: status %d after %d requests, want %d: %.300s", limit+extra, res.Status, sent, want, res.Body)
		}
	}
}
