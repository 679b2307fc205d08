package dataplane_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/upstream"
)

// A response whose text cannot be read is an error of the checks that read it. If one of their
// guardrails denies or can change text, it is denied, with failOnError or without; otherwise it
// passes, which the log says.
func TestResponsesThatCannotBeReadFailClosedOrOpen(t *testing.T) {
	t.Parallel()
	responses := map[string]http.HandlerFunc{
		"an unknown coding": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "zz")
			io.WriteString(w, `{"answer":"`+planted+`"}`)
		},
		"events in an unknown coding": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Encoding", "zz")
			io.WriteString(w, "data: {\"answer\":\""+planted+"\"}\n\n")
		},
		"invalid JSON": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"answer":"`+planted+`"}}`)
		},
		"text in another encoding": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			io.WriteString(w, planted+"\xff")
		},
	}
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"verdict":true}`) }))
	t.Cleanup(hook.Close)
	for name, serve := range responses {
		g := gatewaytest.New(t, gatewaytest.Options{Upstream: serve, Reach: upstream.Options{TrustedHosts: []string{"127.0.0.1"}}})
		for _, check := range []string{
			`"default.webhook":{"webhookURL":"` + hook.URL + `","failOnError":true}`,
			`"default.webhook":{"webhookURL":"` + hook.URL + `"}`,
			`"default.contains":{"operator":"none","words":["` + planted + `"],"failOnError":true}`,
			`"default.contains":{"operator":"none","words":["` + planted + `"]}`,
		} {
			for _, deny := range []bool{true, false} {
				res := g.Post("/some/other/path", `{"model":"m","question":"hi"}`, "x-gateway-provider", "", "x-gateway-config", guarded(fmt.Sprintf(`"output_guardrails":[{"deny":%t,%s}]`, deny, check)))
				acts := deny || strings.Contains(check, "webhook")
				if passed := strings.Contains(string(res.Body), planted) && res.Status < 300; passed == acts || acts && res.Status != 446 {
					t.Errorf("%s, %s, deny %t: status %d, %s", name, check, deny, res.Status, res.Body)
				}
				entry := entryOf(t, g, res.Header.Get("x-gateway-trace-id"))
				list, _ := entry["unchecked"].([]any)
				if !slices.Contains(list, any("response body")) || at(entry, "checks.0.verdict") != "error" {
					t.Errorf("%s, %s, deny %t: unchecked %v, checks %v", name, check, deny, entry["unchecked"], entry["checks"])
				}
			}
		}
	}
}

// Events of an unknown API may hold text that is not a JSON object.
func TestPlantedTextNeverPassesInEventsOfAnotherForm(t *testing.T) {
	t.Parallel()
	var data string
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: "+data+"\n\ndata: [DONE]\n\n")
	})})
	for _, data = range []string{planted, `"` + planted + `"`, `["` + planted + `"]`, `{"a":"` + planted + `"`, "text\ndata: " + planted, planted[:11] + "\n\ndata: " + planted[11:], "[" + planted} {
		for _, guard := range guardsAgainstPlanted {
			for path, body := range map[string]string{"/some/other/path": `{"model":"m","stream":true}`, "/chat/completions": streamChat} {
				res := g.Post(path, body, "x-gateway-provider", "", "x-gateway-config", guarded(`"output_guardrails":[`+guard.config+`]`))
				said := strings.Contains(string(res.Body), "default.") || strings.Contains(string(res.Body), "[gone]")
				if leaks(string(res.Body)) != "" || path != "/chat/completions" && !said {
					t.Errorf("%s, data %s, %s: status %d, %q", guard.name, data, path, res.Status, res.Body)
				}
			}
		}
	}
}
