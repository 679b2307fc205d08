package security

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// front is a load balancer in front of gateways, under a name that they do not know. It
// ends a loop after thirty requests.
type front struct {
	url   string
	count atomic.Int32
}

const endOfLoop = 30

func newFront(t *testing.T, gateways ...*gateway) *front {
	f := new(front)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(f.count.Add(1))
		body, _ := io.ReadAll(r.Body)
		if n > endOfLoop {
			respondChat(w, r)
			return
		}
		to, _ := http.NewRequestWithContext(r.Context(), r.Method, gateways[n%len(gateways)].root+r.RequestURI, bytes.NewReader(body))
		to.Header = r.Header.Clone()
		to.Header["Cdn-Loop"] = append([]string{"front"}, to.Header["Cdn-Loop"]...)
		res, err := client.Do(to)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer res.Body.Close()
		w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
		w.WriteHeader(res.StatusCode)
		io.Copy(w, res.Body)
	}))
	t.Cleanup(s.Close)
	f.url = s.URL + "/v1"
	return f
}

// loopKey makes a key whose default config is text, where FRONT is the address of f and
// KEY the key itself.
func (g *gateway) loopKey(t *testing.T, f *front, text string) made {
	t.Helper()
	k := g.mint(t, rootKey, `["completions.write"]`, "")
	slug := g.saveConfig(t, strings.NewReplacer("FRONT", f.url, "KEY", k.secret).Replace(text))
	g.as(t, rootKey, "PUT", "/v1/api-keys/"+k.id, `{"defaults":{"config_id":"`+slug+`"}}`).ok(t)
	return k
}

// TestRequestsDoNotLeadBackToTheGateway has keys whose config sends requests with the key
// to a name of the gateway: one request would lead to requests without end.
func TestRequestsDoNotLeadBackToTheGateway(t *testing.T) {
	t.Parallel()
	database := options{database: storetest.Postgres(t)}
	first, second, p := launch(t, database), launch(t, database), newProvider(t, nil)
	const toFront = `{"provider":"openai-compatible","custom_host":"FRONT","api_key":"KEY"`
	hook := `{"provider":"openai-compatible","custom_host":"` + p.url + `","api_key":"k","before_request_hooks":[{"id":"h","type":"guardrail","checks":[{"id":"default.webhook","parameters":{"webhookURL":"FRONT/hook","headers":{"x-gateway-api-key":"KEY"}}}]}]}`
	for _, tt := range []struct {
		name     string
		config   string
		gateways []*gateway
		status   int
	}{
		{"a custom host", toFront + "}", []*gateway{first}, http.StatusBadRequest},
		{"a custom host that is retried", toFront + `,"retry":{"attempts":3}}`, []*gateway{first}, http.StatusBadRequest},
		{"a custom host with the header of the gateway", toFront + `,"forward_headers":["cdn-loop"]}`, []*gateway{first}, http.StatusBadRequest},
		{"the name of two gateways", toFront + "}", []*gateway{first, second}, http.StatusBadRequest},
		{"a webhook", hook, []*gateway{first}, 446}, // it may change text, and has not read it
	} {
		attack(t, "exhaustion", "requests that lead back by "+tt.name, func(t *testing.T) {
			f := newFront(t, tt.gateways...)
			k := first.loopKey(t, f, tt.config)
			for _, g := range tt.gateways {
				waittest.Until(t, "the key has its config", func() bool {
					return strings.Contains(string(g.as(t, k.secret, "POST", "/v1/explain", `{"request":{"body":`+chatBody+`}}`).body), "openai-compatible")
				})
			}
			r := first.as(t, k.secret, "POST", "/v1/chat/completions", chatBody, "Cdn-Loop", "another; id=1")
			if n := int(f.count.Load()); n == 0 || n > len(tt.gateways) {
				t.Errorf("%d requests arrived at the front, want 1 to %d", n, len(tt.gateways))
			}
			if r.status != tt.status || tt.status == http.StatusBadRequest && !strings.Contains(string(r.body), "request_loop") {
				t.Errorf("status %d, want %d: %.300s", r.status, tt.status, r.body)
			}
		})
	}
	attack(t, "exhaustion", "a request that has passed many gateways", func(t *testing.T) {
		passed := strings.Repeat("modelgate; id=x, ", 15)
		first.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(rootKey, p, "Cdn-Loop", passed+"other")...).ok(t)
		first.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(rootKey, p, "Cdn-Loop", passed+"modelgate; id=y")...).refused(t, http.StatusBadRequest, "request_loop")
	})
}
