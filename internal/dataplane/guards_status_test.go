package dataplane_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/gatewaytest"
)

// Nothing of a stream has been sent when its first text is denied, so the client
// gets the status of a denial.
func TestStreamWhoseFirstTextIsDeniedHasTheStatusOfADenial(t *testing.T) {
	t.Parallel()
	p := &textProvider{texts: []string{planted + " and after it"}, pause: 20 * time.Millisecond}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	for _, first := range []int{len(planted) + 1, 10} { // in one window, and in a second after one that held it back
		p.pieces = func(text string) []string { return []string{text[:first], text[first:]} }
		for _, client := range clientFormats {
			for _, guard := range guardsAgainstPlanted[2:] {
				res := g.Do(client.ask(t, g, "x-gateway-config", guarded(`"output_guardrails":[`+guard.config+`]`), "m", true))
				if res.Status != 446 || strings.Contains(string(res.Body), planted[:8]) {
					t.Errorf("%s, %s, cut at %d: status %d %s, want 446", guard.name, client.name, first, res.Status, res.Body)
				}
			}
		}
	}
	for seed := range uint64(3) { // a body of an unknown API is checked as it passes
		p.pieces = cutAt(seed)
		res := g.Post("/some/other/path", fmt.Sprintf(`{"model":"m","stream":%t,"question":"hi"}`, true), "x-gateway-provider", "", "x-gateway-config", guarded(`"output_guardrails":[`+guardsAgainstPlanted[2].config+`]`))
		if strings.Contains(string(res.Body), planted[:8]) || res.Status != 446 && !strings.Contains(string(res.Body), "denied") {
			t.Errorf("cut %d: status %d %.300s, want a denial", seed, res.Status, res.Body)
		}
	}
}

// A provider may send events without text for ever: they pass, and are not collected.
func TestStreamOfEventsWithoutTextBegins(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 1000 {
			io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"}}]}\n\n")
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
	})})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", g.URL+"/chat/completions", strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-gateway-api-key", gatewaytest.Key)
	req.Header.Set("x-gateway-config", guarded(`"output_guardrails":[`+guardsAgainstPlanted[2].config+`]`))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("nothing arrived: %v", err)
	}
	defer res.Body.Close()
	if _, err := io.ReadFull(res.Body, make([]byte, 100)); err != nil || res.StatusCode != 200 {
		t.Errorf("status %d, reading the stream: %v", res.StatusCode, err)
	}
}

// With deny in on_success, a request or response that passes all checks is denied.
func TestSuccessOfChecksDeniesWhereOnSuccessSaysSo(t *testing.T) {
	t.Parallel()
	p := &textProvider{texts: []string{"one good answer"}, pause: 5 * time.Millisecond}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	before := func(word string) string {
		return `"before_request_hooks":[{"id":"h","checks":[{"id":"default.contains","parameters":{"words":["` + word + `"],"operator":"all"}}],"on_success":{"deny":true}}]`
	}
	after := func(word string) string {
		return `"output_guardrails":[{"id":"h","default.contains":{"words":["` + word + `"],"operator":"all"},"on_success":{"deny":true}}]`
	}
	without := func(word string) string { // a check of windows, whose first does not decide
		return `"output_guardrails":[{"id":"h","default.regexMatch":{"rule":"` + word + `","not":true},"on_success":{"deny":true}}]`
	}
	for _, client := range clientFormats {
		for _, stream := range []bool{false, true} {
			for _, tt := range []struct {
				config string
				denied bool
			}{{before("hello"), true}, {before("absent"), false}, {after("good"), true}, {after("absent"), false}, {without("absent"), true}, {without("answer"), false}} {
				res := g.Do(client.ask(t, g, "x-gateway-config", guarded(tt.config), "m", stream))
				body := string(res.Body)
				if tt.denied && (res.Status != 446 || !strings.Contains(body, "passed, which on_success denies: default.")) {
					t.Errorf("%s, stream %t, %s: status %d %.300s, want 446 that names the check", client.name, stream, tt.config, res.Status, body)
				}
				if !tt.denied && res.Status != 200 && res.Status != 246 {
					t.Errorf("%s, stream %t, %s: status %d %.300s, want the response", client.name, stream, tt.config, res.Status, body)
				}
				if tt.denied && strings.Contains(body, "answer") {
					t.Errorf("%s, stream %t, %s: the denied text is in %s", client.name, stream, tt.config, body)
				}
			}
		}
	}
	res := g.Post("/explain", `{"request":{"method":"POST","path":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"hello"}]}},"config":`+guarded(before("hello"))+`}`)
	if !strings.Contains(string(res.Body), "and a success denies it") {
		t.Errorf("a dry run does not say that a success denies: %d %.500s", res.Status, res.Body)
	}
}
