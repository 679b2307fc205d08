package security

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"modelgate/internal/waittest"
)

// A client may choose a text that the service of a check refuses to read, by its size, its
// encoding or its content: it is denied, though errors of the check pass. An outage of the
// service is not the client's choice.
func TestTextsThatAServiceRefusesAreDenied(t *testing.T) {
	t.Parallel()
	g := &ranked{gateway: launch(t, options{})}
	g.provider = newProvider(t, g.respond)
	g.key = g.gateway.key(t, rootKey, "default", []string{"completions.write"}, "")
	var refusal atomic.Int32
	refusal.Store(413)
	service := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), forbidden) || strings.Contains(string(body), withheld) {
			w.WriteHeader(int(refusal.Load()))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"verdict":true}`)
	})
	slug := g.create(t, rootKey, "/v1/guardrails", fmt.Sprintf(`{"name":"g","organisation_id":"default","checks":[{"id":"default.webhook","parameters":{"webhookURL":%q,"failOnError":false}}],"actions":{"deny":true}}`, service.root), "slug")
	g.as(t, rootKey, "PUT", "/v1/admin/organisation/defaults", fmt.Sprintf(`{"input_guardrails":[%q],"output_guardrails":[%[1]q]}`, slug)).ok(t)
	waittest.Until(t, "the guardrail applies", func() bool {
		return g.send(t, "POST", "/v1/chat/completions", strings.Replace(chatBody, "hello", forbidden, 1), "").status == 446
	})
	for i, r := range clientRequests {
		status := []int{400, 413, 414, 415, 422}[i%5]
		refusal.Store(int32(status))
		attack(t, "injection", fmt.Sprintf("a text that a webhook refuses with %d passes in a request of %s", status, r.name), func(t *testing.T) {
			got := g.send(t, "POST", r.path, strings.Replace(r.body, "a Q", "a "+forbidden, 1), "")
			if got.status != 446 || g.provider.got(forbidden) || !strings.Contains(string(got.body), fmt.Sprint(status)) {
				t.Errorf("status %d, the provider received it: %t: %.300s", got.status, g.provider.got(forbidden), got.body)
			}
			g.send(t, "POST", r.path, r.body, "").ok(t)
		})
		if r.name == "embeddings" {
			continue
		}
		attack(t, "injection", fmt.Sprintf("a text that a webhook refuses with %d passes in a response of %s", status, r.name), func(t *testing.T) {
			text := "an " + withheld + " there"
			g.reply.Store(&text)
			defer g.reply.Store(nil)
			if got := g.send(t, "POST", r.path, r.body, ""); strings.Contains(string(got.body), withheld) {
				t.Errorf("status %d: %.300s", got.status, got.body)
			}
		})
	}
	for _, status := range []int32{401, 403, 404, 500, 503} {
		refusal.Store(status)
		g.send(t, "POST", "/v1/chat/completions", strings.Replace(chatBody, "hello", forbidden, 1), "").ok(t)
	}
}
