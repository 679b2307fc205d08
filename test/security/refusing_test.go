package security

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"modelgate/internal/testing/waittest"
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

// A model reads the numbers of tokens as text, and guardrails do not.
func TestTokensInsteadOfTextAreDenied(t *testing.T) {
	t.Parallel()
	g := startRanked(t)
	row := func(url, body string) string {
		return fmt.Sprintf(`{"custom_id":"1","method":"POST","url":%q,"body":%s}`, url, body) + "\n"
	}
	for _, c := range []struct{ name, path, body string }{
		{"embeddings", "/v1/embeddings", `{"model":"gpt-4o","input":[14,92]}`},
		{"embeddings of several texts", "/v1/embeddings", `{"model":"gpt-4o","input":[[14,92],[14]]}`},
		{"completions", "/v1/completions", `{"model":"gpt-4o","prompt":[14,92]}`},
		{"completions of several texts", "/v1/completions", `{"model":"gpt-4o","prompt":[[14,92],[14]]}`},
		{"completions as a stream", "/v1/completions", `{"model":"gpt-4o","stream":true,"prompt":[14,92]}`},
		{"a batch of embeddings", "/v1/files", row("/v1/embeddings", `{"model":"gpt-4o","input":[14,92]}`)},
		{"a batch of completions", "/v1/files", row("/v1/completions", `{"model":"gpt-4o","prompt":[[14,92]]}`)},
	} {
		attack(t, "injection", "tokens get text past a guardrail in "+c.name, func(t *testing.T) {
			g.provider.reset()
			body, header := c.body, []string{}
			if c.path == "/v1/files" {
				var kind string
				body, kind = batchForm(c.body)
				header = []string{"Content-Type", kind}
			}
			got := g.do(t, "POST", c.path, body, toCustomHost(g.key, g.provider, header...)...)
			if got.status != 446 || !strings.Contains(string(got.body), "tokens instead of text") || g.provider.got("[14") {
				t.Errorf("status %d, want 446: %.300s", got.status, got.body)
			}
		})
	}
	plain := &ranked{gateway: launch(t, options{})} // its guardrail reads the name of the model only
	plain.provider, plain.key = newProvider(t, plain.respond), plain.gateway.key(t, rootKey, "default", []string{"completions.write"}, "")
	for _, lists := range []string{``, `,"input_guardrails":[{"deny":true,"default.modelWhitelist":{"models":["gpt-4o"]}}]`, `,"input_guardrails":[{"default.contains":{"words":["x"],"operator":"none"}}]`} {
		plain.send(t, "POST", "/v1/embeddings", `{"model":"gpt-4o","input":[14,92]}`, lists).ok(t)
	}
}

// A text that a check requires is not there if a client sends a picture of another text. A check of
// what must not occur lets a picture pass.
func TestPicturesDoNotMeetWhatAGuardrailRequires(t *testing.T) {
	t.Parallel()
	g := &ranked{gateway: launch(t, options{})}
	g.provider, g.key = newProvider(t, g.respond), g.gateway.key(t, rootKey, "default", []string{"completions.write"}, "")
	for _, r := range []struct{ name, path, body string }{
		{"chat", "/v1/chat/completions", `{"model":"gpt-4o","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}]}`},
		{"messages", "/v1/messages", `{"model":"gpt-4o","max_tokens":10,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]}]}`},
		{"gemini", "/v1beta/models/gpt-4o:generateContent", `{"contents":[{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}]}]}`},
		{"responses", "/v1/responses", `{"model":"gpt-4o","input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo="}]}]}`},
	} {
		for _, check := range []string{`"default.contains":{"words":["ticket"]}`, `"default.regexMatch":{"rule":"ticket"}`, `"default.wordCount":{"minWords":3}`, `"default.jsonKeys":{"keys":["ticket"],"operator":"all"}`} {
			attack(t, "injection", "a picture meets "+check+" in "+r.name, func(t *testing.T) {
				got := g.send(t, "POST", r.path, r.body, `,"input_guardrails":[{"deny":true,`+check+`}]`)
				if got.status != 446 || len(g.provider.seen()) > 0 {
					t.Errorf("status %d, want 446: %.300s", got.status, got.body)
				}
			})
		}
		g.send(t, "POST", r.path, r.body, `,"input_guardrails":[{"deny":true,"default.contains":{"words":["ticket"],"operator":"none"}},{"deny":true,"default.pii":{}}]`).ok(t)
	}
}
