package security

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// passing answers every request of a check so that the check passes.
func passing(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if strings.Contains(r.URL.Path, "/chat/completions") {
		io.WriteString(w, strings.Replace(chatResponse, `"content":"hi"`, `"content":"{\"verdict\":true,\"language\":\"eng_Latn\"}"`, 1))
		return
	}
	io.WriteString(w, `{"verdict":true,"active":true,"data":{"guardrailsResult":{"Allowed":true}}}`)
}

// callers are checks that send requests, to a host of the client's choice at %[1]s. Each
// copy has an address of its own, %[2]d, since a check may remember responses.
var callers = []struct{ name, check, parameters string }{
	{"webhooks", "default.webhook", `"webhookURL":"%[1]s/hook/%[2]d"`},
	{"logs", "default.log", `"logURL":"%[1]s/log/%[2]d"`},
	{"HEAD requests", "default.validUrls", `"not":false`},
	{"partners", "akto.scan", `"credentials":{"apiToken":"t","apiUrl":"%[1]s/akto/%[2]d"}`},
	{"keys of tokens", "default.jwt", `"headerKey":"x-token","jwksUri":"%[1]s/keys/%[2]d"`},
	{"token introspection", "default.jwt", `"headerKey":"x-token","introspectEndpoint":"%[1]s/tokens/%[2]d"`},
	{"models", "gateway.modelCheck", `"model":"@asked/m","instructions":"text %[2]d","failOnError":false`},
	{"languages", "gateway.language", `"model":"@asked/m","language":"text %[2]d","failOnError":false`},
}

// unsigned is a token that no issuer signed, with the form of one.
const unsigned = "eyJhbGciOiJSUzI1NiIsImtpZCI6ImsifQ.eyJpYXQiOjF9.AAAA"

// amplified starts a gateway with a managed provider @asked at hook.
func amplified(t *testing.T, hook *provider, settings string) *gateway {
	t.Helper()
	return launch(t, options{
		settings: "version: 1\n" + settings + "providers:\n  - {slug: asked, provider: openai, api_key: \"${ASKED_KEY}\", custom_host: \"" + hook.url + "\"}\n",
		env:      []string{"ASKED_KEY=" + storedKey},
	})
}

// hooksOf is a list of n items with a check each: hooks, or guardrails.
func hooksOf(n int, list, check, parameters, at, more string) string {
	return fmt.Sprintf("%q:[", list) + repeated(n, func(i int) string {
		own := strings.ReplaceAll(strings.ReplaceAll(parameters, "%[1]s", at), "%[2]d", fmt.Sprint(i))
		if strings.HasSuffix(list, "_hooks") {
			return fmt.Sprintf(`{"type":"guardrail","id":"h%d"%s,"checks":[{"id":%q,"parameters":{%s}}]}`, i, more, check, own)
		}
		return fmt.Sprintf(`{"id":"h%d"%s,%q:{%s}}`, i, more, check, own)
	}) + "]"
}

// The hooks of a config ask whom the client names. They count with the attempts of the
// request, before it, after it and in the background, in every dialect.
func TestHooksOfAConfigAreBoundedByTheAttempts(t *testing.T) {
	t.Parallel()
	hook := newProvider(t, passing)
	g := amplified(t, hook, "")
	send := func(t *testing.T, path, body, config string) response {
		t.Helper()
		hook.reset()
		r := g.as(t, rootKey, "POST", path, body, "x-gateway-config", config, "x-token", unsigned)
		waittest.Until(t, "the checks of the background have ended", func() bool { return metric(g.series(t), "modelgate_requests_in_flight") == 0 && g.quiet(t) })
		return r
	}
	text := "see " + hook.root + "/a"
	chat := strings.Replace(chatBody, "hello", text, 1)
	for _, c := range callers {
		for _, list := range []struct{ name, more string }{
			{"before_request_hooks", ""}, {"before_request_hooks", `,"sequential":true`}, {"input_guardrails", ""}, {"input_guardrails", `,"async":true`}, {"input_mutators", ""},
			{"after_request_hooks", ""}, {"output_guardrails", ""}, {"output_guardrails", `,"async":true`},
		} {
			before := strings.HasPrefix(list.name, "before") || strings.HasPrefix(list.name, "input")
			if c.check == "default.jwt" && !before {
				continue
			}
			attack(t, "exhaustion", "amplification: "+c.name+" in "+list.name+list.more, func(t *testing.T) {
				p := newProvider(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					io.WriteString(w, strings.Replace(chatResponse, `"content":"hi"`, `"content":"`+text+`"`, 1))
				})
				config := strings.Replace(targetAt(p, ""), "{", "{"+hooksOf(60, list.name, c.check, c.parameters, hook.root, list.more)+",", 1)
				r := send(t, "/v1/chat/completions", chat, config)
				if sent := len(hook.seen()) + len(p.seen()); sent != 32 {
					t.Errorf("one request made %d requests, want 32: %d %.300s", sent, r.status, r.body)
				}
				switch {
				case strings.Contains(list.more, "async"):
				case before:
					r.refused(t, 503, "32 attempts", "limits.attempts", "attempts_exhausted")
				case r.status != 200 || !strings.Contains(string(r.body), "limits.attempts"):
					t.Errorf("status %d, want 200 with results that name limits.attempts: %.300s", r.status, r.body)
				}
			})
		}
	}
}

// quiet reports whether no exchange waits for its checks.
func (g *gateway) quiet(t *testing.T) bool {
	return metric(g.series(t), "modelgate_body_memory_bytes") == 0
}

// dialectRequests are requests in every dialect, with an answer of a provider of its own.
var dialectRequests = []struct{ name, path, body, answer string }{
	{"chat", "/v1/chat/completions", chatBody, chatResponse},
	{"completions", "/v1/completions", `{"model":"m","prompt":"hello"}`, `{"id":"c","object":"text_completion","choices":[{"index":0,"text":"hi","finish_reason":"stop"}]}`},
	{"embeddings", "/v1/embeddings", `{"model":"m","input":"hello"}`, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5]}]}`},
	{"messages", "/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hello"}]}`, chatResponse},
	{"responses", "/v1/responses", `{"model":"m","input":"hello"}`, chatResponse},
	{"gemini", "/v1beta/models/m:generateContent", `{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}`, chatResponse},
	{"converse", "/model/m/converse", `{"messages":[{"role":"user","content":[{"text":"hello"}]}]}`, chatResponse},
	{"pass-through", "/v1/invented", `{"a":"hello"}`, `{"b":"hi"}`},
	{"moderations", "/v1/moderations", `{"model":"m","input":"hello"}`, `{"id":"m","results":[{"flagged":false,"categories":{}}]}`},
	{"a form", "/v1/invented", "", `{"b":"hi"}`},
	{"a stream", "/v1/chat/completions", strings.Replace(chatBody, "{", `{"stream":true,`, 1), ""},
}

func TestHooksOfAConfigAreBoundedInEveryDialect(t *testing.T) {
	t.Parallel()
	hook := newProvider(t, passing)
	g := amplified(t, hook, "")
	for _, d := range dialectRequests {
		p := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
			if d.answer == "" {
				respondChat(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, d.answer)
		})
		body, media := d.body, "application/json"
		if body == "" {
			body, media = "--b\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\n"+strings.Repeat("hello ", 20)+"\r\n--b--\r\n", "multipart/form-data; boundary=b"
		}
		ask := func(t *testing.T, list string, n int) response {
			t.Helper()
			hook.reset()
			p.reset()
			config := strings.Replace(targetAt(p, ""), "{", "{"+hooksOf(n, list, "default.webhook", `"webhookURL":"%[1]s/%[2]d"`, hook.root, `,"deny":true`)+",", 1)
			r := g.as(t, rootKey, "POST", d.path, body, "x-gateway-config", config, "Content-Type", media)
			waittest.Until(t, "the request has ended", func() bool { return g.quiet(t) })
			return r
		}
		attack(t, "exhaustion", "amplification before the request: "+d.name, func(t *testing.T) {
			r := ask(t, "input_guardrails", 60)
			n, m := len(hook.seen()), len(p.seen())
			if n+m != 32 { // a form is sent while it is checked
				t.Errorf("status %d, %d requests of hooks and %d of the provider; want 32: %.300s", r.status, n, m, r.body)
			}
			if m == 0 {
				r.refused(t, 503, "32 attempts", "limits.attempts")
			}
		})
		attack(t, "exhaustion", "amplification after the response: "+d.name, func(t *testing.T) {
			ask(t, "output_guardrails", 60)
			if n, m := len(hook.seen()), len(p.seen()); n > 31 || m != 1 {
				t.Errorf("%d requests of hooks and %d of the provider, want at most 31 and one", n, m)
			}
		})
		attack(t, "exhaustion", "amplification: some hooks are allowed: "+d.name, func(t *testing.T) {
			for _, list := range []string{"input_guardrails", "output_guardrails"} {
				if r := ask(t, list, 8); r.status != 200 || len(p.seen()) != 1 || strings.Contains(string(r.body), "limits.attempts") {
					t.Errorf("eight %s: status %d: %.300s", list, r.status, r.body)
				}
			}
		})
	}
}

// What the client names by reference, repeats in targets or spreads over lists counts too.
func TestHooksInEveryPlaceOfAConfigCount(t *testing.T) {
	t.Parallel()
	hook := newProvider(t, passing)
	g := amplified(t, hook, "limits: {attempts: 10}\n")
	var saved []string
	for i := range 20 {
		body := fmt.Sprintf(`{"name":"g%d","workspace_id":"default","checks":[{"id":"default.webhook","parameters":{"webhookURL":"%s/saved/%d"}}],"actions":{"deny":true}}`, i, hook.root, i)
		saved = append(saved, `"`+g.create(t, rootKey, "/v1/guardrails", body, "slug")+`"`)
	}
	references := strings.Join(saved, ",")
	webhooks := func(n int, list, more string) string {
		return hooksOf(n, list, "default.webhook", `"webhookURL":"%[1]s/%[2]d"`, hook.root, more)
	}
	many := `{"type":"guardrail","id":"h","checks":[` + repeated(40, func(i int) string {
		return fmt.Sprintf(`{"id":"default.webhook","parameters":{"webhookURL":"%s/%d"}}`, hook.root, i)
	}) + `]}`
	for _, tt := range []struct {
		name   string
		config func(target string) string
		served bool
	}{
		{"saved guardrails by name", func(target string) string {
			return strings.Replace(target, "{", `{"input_guardrails":[`+references+`],`, 1)
		}, false},
		{"saved guardrails after the response", func(target string) string {
			return strings.Replace(target, "{", `{"output_guardrails":[`+references+`],`, 1)
		}, true},
		{"checks of one hook", func(target string) string {
			return strings.Replace(target, "{", `{"before_request_hooks":[`+many+`],`, 1)
		}, false},
		{"hooks of every list", func(target string) string {
			return strings.Replace(target, "{", "{"+webhooks(4, "before_request_hooks", "")+","+webhooks(4, "input_guardrails", "")+","+webhooks(4, "input_mutators", "")+",", 1)
		}, false},
		{"hooks of every list after the response", func(target string) string {
			return strings.Replace(target, "{", "{"+webhooks(4, "after_request_hooks", "")+","+webhooks(4, "output_guardrails", "")+","+webhooks(4, "output_mutators", "")+",", 1)
		}, true},
		{"hooks of each of many targets", func(target string) string {
			return `{"strategy":{"mode":"fallback","on_status_codes":[200,503]},"targets":[` + repeated(5, func(i int) string {
				return strings.Replace(target, "{", "{"+webhooks(6, "output_guardrails", fmt.Sprintf(`,"sequential":%t`, i%2 == 0))+",", 1)
			}) + `]}`
		}, true},
		{"hooks that deny in each of many targets", func(target string) string {
			return `{"strategy":{"mode":"fallback"},"targets":[` + repeated(8, func(int) string {
				return strings.Replace(target, "{", "{"+webhooks(6, "input_guardrails", `,"deny":true`)+",", 1)
			}) + `]}`
		}, true},
		{"hooks of the background of each target", func(target string) string {
			return `{"strategy":{"mode":"fallback","on_status_codes":[200,503]},"targets":[` + repeated(5, func(int) string {
				return strings.Replace(target, "{", "{"+webhooks(6, "output_guardrails", `,"async":true`)+",", 1)
			}) + `]}`
		}, true},
	} {
		attack(t, "exhaustion", "amplification by a setting of ten: "+tt.name, func(t *testing.T) {
			p := newProvider(t, nil)
			hook.reset()
			r := g.as(t, rootKey, "POST", "/v1/chat/completions", chatBody, "x-gateway-config", tt.config(targetAt(p, "")))
			waittest.Until(t, "the request has ended", func() bool { return g.quiet(t) })
			if n := len(hook.seen()) + len(p.seen()); n > 10 || n < 7 {
				t.Errorf("one request made %d requests, want at most 10: %d %.300s", n, r.status, r.body)
			}
			if !tt.served {
				r.refused(t, 503, "10 attempts", "limits.attempts", "attempts_exhausted")
			}
		})
	}
	attack(t, "exhaustion", "amplification by a test of guardrails", func(t *testing.T) {
		hook.reset()
		r := g.as(t, rootKey, "POST", "/v1/guardrails/test", `{"workspace_id":"default","text":"hello","checks":[`+repeated(40, func(i int) string {
			return fmt.Sprintf(`{"id":"default.webhook","parameters":{"webhookURL":"%s/%d"}}`, hook.root, i)
		})+`]}`)
		if n := len(hook.seen()); n != 10 || !strings.Contains(string(r.body), "limits.attempts") {
			t.Errorf("a test made %d requests, want 10: %d %.300s", n, r.status, r.body)
		}
	})
	attack(t, "exhaustion", "amplification by a saved config", func(t *testing.T) {
		p := newProvider(t, nil)
		config := strings.Replace(targetAt(p, ""), "{", "{"+webhooks(40, "input_guardrails", "")+",", 1)
		slug := g.create(t, rootKey, "/v1/configs", fmt.Sprintf(`{"name":"many","workspace_id":"default","config":%s}`, config), "data.slug")
		hook.reset()
		waittest.Until(t, "the config is saved", func() bool {
			return g.as(t, rootKey, "POST", "/v1/chat/completions", chatBody, "x-gateway-config", slug).status == 503
		})
		if n := len(hook.seen()); n != 10 {
			t.Errorf("one request made %d requests, want 10", n)
		}
	})
}

// A client that uses up the attempts of its request does not take them from the checks of
// its organisation.
func TestChecksOfAnOrganisationAreNotStarvedByAConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, check string }{
		{"a webhook", `{"id":"default.webhook","parameters":{"webhookURL":"%s/organisation"}}`},
		{"a model", `{"id":"gateway.modelCheck","parameters":{"model":"@asked/m","instructions":"no heron","failOnError":false}}`},
		{"twelve models", repeated(12, func(i int) string {
			return fmt.Sprintf(`{"id":"gateway.modelCheck","parameters":{"model":"@asked/m","instructions":"no heron %d","failOnError":false}}`, i)
		})},
		{"a partner", `{"id":"akto.scan","parameters":{"failOnError":false}}`},
	} {
		denying := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			bad := strings.Contains(string(body), "heron flies")
			w.Header().Set("Content-Type", "application/json")
			if strings.Contains(r.URL.Path, "/chat/completions") {
				io.WriteString(w, strings.Replace(chatResponse, `"content":"hi"`, fmt.Sprintf(`"content":"{\"verdict\":%t}"`, !bad), 1))
				return
			}
			fmt.Fprintf(w, `{"verdict":%t,"data":{"guardrailsResult":{"Allowed":%t}}}`, !bad, !bad)
		})
		hook := newProvider(t, passing)
		g := amplified(t, denying, "limits: {attempts: 10}\n")
		if strings.Contains(c.check, "akto") {
			g.create(t, rootKey, "/v1/guardrail-credentials", fmt.Sprintf(`{"partner":"akto","organisation_id":"default","credentials":{"apiToken":"t","apiUrl":%q}}`, denying.root), "id")
		}
		check := c.check
		if strings.Contains(check, "%s") {
			check = fmt.Sprintf(check, denying.root)
		}
		slug := g.create(t, rootKey, "/v1/guardrails", `{"name":"no herons","organisation_id":"default","checks":[`+check+`],"actions":{"deny":true}}`, "slug")
		g.as(t, rootKey, "PUT", "/v1/admin/organisation/defaults", fmt.Sprintf(`{"output_guardrails":[%q]}`, slug)).ok(t)
		p := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			text := "hi"
			if strings.Contains(string(body), "tell") {
				text = "the heron flies"
			}
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, strings.Replace(chatResponse, `"content":"hi"`, `"content":"`+text+`"`, 1))
		})
		bad := newProvider(t, failing)
		ask := func(text string, before, after, fallbacks int) response {
			config := strings.Replace(targetAt(p, ""), "{", "{"+hooksOf(before, "input_guardrails", "default.webhook", `"webhookURL":"%[1]s/%[2]d"`, hook.root, "")+
				","+hooksOf(after, "output_guardrails", "default.webhook", `"webhookURL":"%[1]s/a%[2]d"`, hook.root, "")+",", 1)
			if fallbacks > 0 {
				config = `{"strategy":{"mode":"fallback"},"targets":[` + repeated(fallbacks, always(targetAt(bad, ""))) + "," + config + `]}`
			}
			return g.as(t, rootKey, "POST", "/v1/chat/completions", strings.Replace(chatBody, "hello", text, 1), "x-gateway-config", config)
		}
		waittest.Until(t, "the guardrail applies", func() bool { return ask("tell", 0, 0, 0).status == 446 })
		for _, n := range [][3]int{{9, 0, 0}, {9, 30, 0}, {0, 60, 0}, {5, 5, 0}, {0, 0, 9}, {4, 0, 5}} {
			attack(t, "exhaustion", fmt.Sprintf("starving %s of the organisation with %d hooks before, %d after and %d failed attempts", c.name, n[0], n[1], n[2]), func(t *testing.T) {
				if r := ask("tell", n[0], n[1], n[2]); r.status != 446 || strings.Contains(string(r.body), "heron flies") {
					t.Errorf("status %d, want 446: %.300s", r.status, r.body)
				}
				if r := ask("say", n[0], n[1], n[2]); r.status != 200 {
					t.Errorf("a response that the guardrail lets pass: %d %.300s", r.status, r.body)
				}
			})
		}
	}
}
