package security

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"modelgate/internal/testing/waittest"
)

// withheld is what the organisation of a ranked gateway denies in responses, and redacted
// what it replaces in requests and responses.
const (
	withheld = "Osprey"
	redacted = "Heron"
)

// ownServer stands for the address of the client's own server in a config.
const ownServer = "http://own-server.example"

// ranked is a gateway whose organisation denies forbidden in requests and withheld in
// responses, and redacts redacted in both.
type ranked struct {
	*gateway
	key      string
	provider *provider
	reply    atomic.Pointer[string]
}

func startRanked(t *testing.T) *ranked {
	t.Helper()
	g := &ranked{gateway: launch(t, options{})}
	saved := func(name, check string) string {
		return g.create(t, rootKey, "/v1/guardrails", fmt.Sprintf(`{"name":%q,"organisation_id":"default","checks":[%s],"actions":{"deny":true}}`, name, check), "slug")
	}
	denies := func(name, word string) string {
		return saved(name, fmt.Sprintf(`{"id":"default.contains","parameters":{"words":[%q],"operator":"none"}}`, word))
	}
	redacts := saved("redact", fmt.Sprintf(`{"id":"default.regexReplace","parameters":{"rule":%q,"redactText":"[bird]"}}`, redacted))
	// Another guardrail of the organisation, whose results must not show it either.
	reports := g.create(t, rootKey, "/v1/guardrails", `{"name":"report","organisation_id":"default","checks":[{"id":"default.regexMatch","parameters":{"rule":"(.*[OH].*)"}}],"actions":{}}`, "slug")
	g.as(t, rootKey, "PUT", "/v1/admin/organisation/defaults", fmt.Sprintf(`{"input_guardrails":[%q,%q],"output_guardrails":[%q,%q,%q]}`, denies("input", forbidden), redacts, denies("output", withheld), redacts, reports)).ok(t)
	g.key = g.gateway.key(t, rootKey, "default", []string{"completions.write"}, "")
	g.provider = newProvider(t, g.respond)
	waittest.Until(t, "the guardrails apply", func() bool {
		return g.do(t, "POST", "/v1/chat/completions", strings.Replace(chatBody, "hello", forbidden, 1), toCustomHost(g.key, g.provider)...).status == 446
	})
	return g
}

// newOwn starts the client's own server: a webhook, or where it sends logs.
func newOwn(t *testing.T) *provider {
	return newProvider(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"verdict":true,"data":{"seen":%q}}`, body)
	})
}

// respond answers in the client's own API with the text of the case.
func (g *ranked) respond(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	text := "harmless"
	if p := g.reply.Load(); p != nil {
		text = *p
	}
	w.Header().Set("Content-Type", "application/json")
	switch streamed := strings.Contains(string(body), `"stream":true`); {
	case strings.HasSuffix(r.URL.Path, "/embeddings"):
		io.WriteString(w, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1]}],"model":"gpt-4o","usage":{"prompt_tokens":1,"total_tokens":1}}`)
	case strings.HasSuffix(r.URL.Path, "/invented") && streamed:
		w.Header().Set("Content-Type", "text/event-stream")
		for piece := range pieces(text) {
			fmt.Fprintf(w, "data: {\"text\":%q}\n\n", piece)
		}
	case strings.HasSuffix(r.URL.Path, "/invented"):
		fmt.Fprintf(w, `{"text":%q}`, text)
	case strings.HasSuffix(r.URL.Path, "/content"):
		fmt.Fprintf(w, "{\"custom_id\":\"1\",\"response\":{\"body\":{\"text\":%q}}}\n", text)
	case strings.HasSuffix(r.URL.Path, "/completions") && !strings.HasSuffix(r.URL.Path, "/chat/completions"):
		fmt.Fprintf(w, `{"id":"c","object":"text_completion","created":1,"model":"gpt-4o","choices":[{"index":0,"text":%q,"finish_reason":"stop","logprobs":null}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`, text)
	case streamed:
		w.Header().Set("Content-Type", "text/event-stream")
		for piece := range pieces(text) {
			fmt.Fprintf(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-4o\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":%q},\"finish_reason\":null}]}\n\n", piece)
		}
		io.WriteString(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-4o\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	default:
		fmt.Fprintf(w, `{"id":"c","object":"chat.completion","created":1,"model":"gpt-4o","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`, text)
	}
}

// pieces cuts a text as a stream does.
func pieces(text string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for len(text) > 0 {
			n := min(3, len(text))
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}

// send sends a request with a config of the client, whose properties are lists.
func (g *ranked) send(t *testing.T, method, path, body, lists string) response {
	t.Helper()
	config := fmt.Sprintf(`{"provider":"openai-compatible","custom_host":%q,"api_key":%q,"strict_vendora_compliance":false%s}`, g.provider.url, clientKey, lists)
	g.provider.reset()
	return g.as(t, g.key, method, path, body, "x-gateway-config", config)
}

// clientRequests are requests of every API with the text Q, streamed and not.
var clientRequests = []struct{ name, path, body string }{
	{"chat", "/v1/chat/completions", `{"model":"gpt-4o","messages":[{"role":"user","content":"a Q"}]}`},
	{"chat stream", "/v1/chat/completions", `{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"a Q"}]}`},
	{"completions", "/v1/completions", `{"model":"gpt-4o","prompt":"a Q"}`},
	{"messages", "/v1/messages", `{"model":"gpt-4o","max_tokens":10,"messages":[{"role":"user","content":"a Q"}]}`},
	{"messages stream", "/v1/messages", `{"model":"gpt-4o","max_tokens":10,"stream":true,"messages":[{"role":"user","content":"a Q"}]}`},
	{"responses", "/v1/responses", `{"model":"gpt-4o","input":"a Q"}`},
	{"responses stream", "/v1/responses", `{"model":"gpt-4o","stream":true,"input":"a Q"}`},
	{"gemini", "/v1beta/models/gpt-4o:generateContent", `{"contents":[{"role":"user","parts":[{"text":"a Q"}]}]}`},
	{"converse", "/model/gpt-4o/converse", `{"messages":[{"role":"user","content":[{"text":"a Q"}]}]}`},
	{"embeddings", "/v1/embeddings", `{"model":"gpt-4o","input":"a Q"}`},
	{"pass-through", "/v1/invented", `{"text":"a Q"}`},
	{"pass-through stream", "/v1/invented", `{"text":"a Q","stream":true}`},
}

// batchForm returns a form with a file of rows of a batch, and its type.
func batchForm(rows string) (body, contentType string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	w.WriteField("purpose", "batch")
	part, _ := w.CreateFormFile("file", "rows.jsonl")
	io.WriteString(part, rows)
	w.Close()
	return b.String(), w.FormDataContentType()
}

// What a config changes is read by the organisation's guardrails, whatever changes it and
// in whatever order.
func TestConfigsWriteNothingPastGuardrailsOfHigherRank(t *testing.T) {
	t.Parallel()
	g := startRanked(t)
	half := len(forbidden) / 2
	replace := func(rule, with string) string {
		return fmt.Sprintf(`{"default.regexReplace":{"rule":%q,"redactText":%q}}`, rule, with)
	}
	for _, c := range []struct {
		name, lists string
		chat        bool // for requests with messages only
	}{
		{"a guardrail", `,"input_guardrails":[` + replace("Q", forbidden) + `]`, false},
		{"a mutator", `,"input_mutators":[` + replace("Q", forbidden) + `]`, false},
		{"a hook", fmt.Sprintf(`,"before_request_hooks":[{"id":"h","checks":[{"id":"default.regexReplace","parameters":{"rule":"Q","redactText":%q}}]}]`, forbidden), false},
		{"two guardrails, half each", `,"input_guardrails":[` + replace("Q", forbidden[:half]+"Q") + `,` + replace("Q", forbidden[half:]) + `]`, false},
		{"a guardrail and a mutator", `,"input_guardrails":[` + replace("Q", "Z") + `],"input_mutators":[` + replace("Z", forbidden) + `]`, false},
		{"a prefix", fmt.Sprintf(`,"input_mutators":[{"default.addPrefix":{"prefix":"%s ","applyToRole":"user"}}]`, forbidden), true},
	} {
		for _, r := range clientRequests {
			if c.chat && (r.name == "embeddings" || strings.HasPrefix(r.name, "pass") || r.name == "completions") {
				continue
			}
			attack(t, "injection", c.name+" of a config writes past a guardrail of the organisation in "+r.name, func(t *testing.T) {
				if got := g.send(t, "POST", r.path, r.body, c.lists); got.status != 446 {
					t.Errorf("status %d, want 446: %.300s", got.status, got.body)
				}
				if g.provider.got(forbidden) {
					t.Error("the provider received the text")
				}
				g.send(t, "POST", r.path, r.body, strings.ReplaceAll(strings.ReplaceAll(c.lists, forbidden, "heron"), forbidden[half:], "heron")).ok(t)
				if !g.provider.got("heron") {
					t.Errorf("a harmless change is lost: %s", g.provider.seen()[0].body)
				}
			})
		}
	}
	rows := func(text string) (body, contentType string) {
		row := fmt.Sprintf(`{"custom_id":"1","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-4o","messages":[{"role":"user","content":%q}]}}`, text)
		return batchForm(row + "\n")
	}
	for name, lists := range map[string]string{"a guardrail": `,"input_guardrails":[` + replace("Q", forbidden) + `]`, "two mutators": `,"input_mutators":[` + replace("Q", forbidden[:half]+"Q") + `,` + replace("Q", forbidden[half:]) + `]`} {
		attack(t, "injection", name+" of a config writes past a guardrail of the organisation in a row of a batch", func(t *testing.T) {
			config := fmt.Sprintf(`{"provider":"openai-compatible","custom_host":%q,"api_key":%q%s}`, g.provider.url, clientKey, lists)
			g.provider.reset()
			body, kind := rows("a Q")
			if got := g.as(t, g.key, "POST", "/v1/files", body, "x-gateway-config", config, "Content-Type", kind); got.status != 446 || g.provider.got(forbidden) {
				t.Errorf("status %d, want 446; the provider received it: %t: %.300s", got.status, g.provider.got(forbidden), got.body)
			}
			body, kind = rows("a Z")
			g.as(t, g.key, "POST", "/v1/files", body, "x-gateway-config", config, "Content-Type", kind).ok(t)
			if !g.provider.got("a Z") {
				t.Error("a harmless row did not arrive")
			}
		})
	}
	attack(t, "injection", "a config undoes a redaction of the organisation", func(t *testing.T) {
		g.send(t, "POST", "/v1/chat/completions", strings.Replace(chatBody, "hello", "a "+redacted, 1), `,"input_guardrails":[`+replace(`\[bird\]`, redacted)+`]`).ok(t)
		if g.provider.got(redacted) || !g.provider.got("[bird]") {
			t.Errorf("the provider received %s", g.provider.seen()[0].body)
		}
	})
}

// The client's own webhook gets nothing that the organisation denied or redacted, and its
// changes are checked.
func TestWebhooksOfConfigsSeeOnlyWhatHigherRanksLetPass(t *testing.T) {
	t.Parallel()
	g := startRanked(t)
	for _, how := range []struct{ name, more string }{{"a webhook", ""}, {"an async webhook", `,"async":true`}, {"a webhook in shadow mode", `,"mode":"shadow"`}} {
		for _, kind := range []string{"webhook", "log"} {
			for _, text := range []string{forbidden, redacted} {
				attack(t, "injection", fmt.Sprintf("%s (%s) of a config reads %s in a request", how.name, kind, text), func(t *testing.T) {
					own := newOwn(t)
					lists := fmt.Sprintf(`,"input_guardrails":[{"default.%s":{"%sURL":%q}%s}]`, kind, kind, own.root, how.more)
					res := g.send(t, "POST", "/v1/chat/completions", strings.Replace(chatBody, "hello", "a "+text, 1), lists)
					if want := map[string]int{forbidden: 446, redacted: 200}[text]; res.status != want {
						t.Errorf("status %d, want %d: %.300s", res.status, want, res.body)
					}
					if text == redacted {
						waittest.Until(t, "the webhook is called", func() bool { return own.got("[bird]") })
					}
					g.send(t, "POST", "/v1/chat/completions", chatBody, lists).ok(t)
					waittest.Until(t, "the webhook is called", func() bool { return own.got("hello") })
					if own.got(text) {
						t.Error("the client's server received the text")
					}
				})
			}
		}
	}
	for name, json := range map[string]string{
		"the body":       fmt.Sprintf(`{"json":{"model":"gpt-4o","messages":[{"role":"user","content":%q}]}}`, forbidden),
		"another system": fmt.Sprintf(`{"json":{"model":"gpt-4o","messages":[{"role":"user","content":%q},{"role":"assistant","content":"x"},{"role":"user","content":%q}]}}`, "x", forbidden),
	} {
		attack(t, "injection", "transformedData of a webhook writes "+name+" past a guardrail of the organisation", func(t *testing.T) {
			writer := newProvider(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"verdict":true,"transformedData":{"request":%s}}`, json)
			})
			res := g.send(t, "POST", "/v1/chat/completions", chatBody, fmt.Sprintf(`,"input_guardrails":[{"default.webhook":{"webhookURL":%q}}]`, writer.root))
			if res.status != 446 || g.provider.got(forbidden) || len(writer.seen()) == 0 {
				t.Errorf("status %d after %d calls, provider received it: %t", res.status, len(writer.seen()), g.provider.got(forbidden))
			}
		})
	}
}

// Neither results nor servers of the client get text of a response that the organisation
// denied or redacted.
func TestChecksOfConfigsReadNothingThatHigherRanksWithhold(t *testing.T) {
	t.Parallel()
	g := startRanked(t)
	for _, c := range []struct{ name, lists string }{
		{"no check", ``},
		{"a match with groups", `,"output_guardrails":[{"default.regexMatch":{"rule":"(.*)([OH][a-z]+)(.*)"}}]`},
		{"a negated match", `,"output_guardrails":[{"default.regexMatch":{"rule":"(O[a-z]+|H[a-z]+)","not":true}}]`},
		{"a hook with a match", `,"after_request_hooks":[{"id":"h","checks":[{"id":"default.regexMatch","parameters":{"rule":"([OH][a-z]+)"}}]}]`},
		{"a list of words", fmt.Sprintf(`,"output_guardrails":[{"default.contains":{"words":[%q,%q],"operator":"any"}}]`, withheld, redacted)},
		{"a mutator that spells it", `,"output_mutators":[{"default.regexReplace":{"rule":"([OH])([a-z]+)","redactText":"$1-$2"}}]`},
		{"a webhook", fmt.Sprintf(`,"output_guardrails":[{"default.webhook":{"webhookURL":%q}}]`, ownServer)},
		{"an async webhook", fmt.Sprintf(`,"output_guardrails":[{"async":true,"default.webhook":{"webhookURL":%q}}]`, ownServer)},
		{"a log", fmt.Sprintf(`,"output_guardrails":[{"default.log":{"logURL":%q}}]`, ownServer)},
		{"a log that observes", fmt.Sprintf(`,"output_guardrails":[{"stream":"observe","default.log":{"logURL":%q}}]`, ownServer)},
		{"a log in windows", fmt.Sprintf(`,"output_guardrails":[{"deny":true,"stream":"window","default.webhook":{"webhookURL":%q}}]`, ownServer)},
		{"a log in shadow mode", fmt.Sprintf(`,"output_guardrails":[{"mode":"shadow","default.log":{"logURL":%q}}]`, ownServer)},
	} {
		for _, r := range clientRequests {
			for _, text := range []string{withheld, redacted} {
				if r.name == "embeddings" {
					continue
				}
				attack(t, "injection", fmt.Sprintf("%s of a config reads %s in a response of %s", c.name, text, r.name), func(t *testing.T) {
					own := newOwn(t)
					lists := strings.ReplaceAll(c.lists, ownServer, own.root)
					reply := "the nest of the " + text + " is there"
					g.reply.Store(&reply)
					res := g.send(t, "POST", r.path, r.body, lists)
					if strings.Contains(spelled(res.body), text) {
						t.Errorf("the client received it: %s", res.body)
					}
					if text == redacted && !strings.Contains(spelled(res.body), "[bird]") {
						t.Errorf("status %d without the redacted response: %.400s", res.status, res.body)
					}
					if got := string(res.body); text == withheld && res.status != 446 && !strings.Contains(got, "denied") {
						t.Errorf("status %d, want a denial: %.400s", res.status, got)
					}
					reply = "harmless end"
					g.send(t, "POST", r.path, r.body, lists)
					if lists != c.lists {
						waittest.Until(t, "the client's server gets what passes", func() bool { return own.got("harmless") })
					}
					if own.got(text) {
						t.Errorf("the client's server received it: %s", own.seen()[0].body)
					}
				})
			}
		}
	}
	attack(t, "injection", "a check of a config reads a denied row of a file", func(t *testing.T) {
		own, reply := newOwn(t), "the "+withheld
		g.reply.Store(&reply)
		res := g.send(t, "GET", "/v1/files/file-1/content", "", fmt.Sprintf(`,"output_guardrails":[{"default.log":{"logURL":%q}}]`, own.root))
		if strings.Contains(string(res.body), withheld) || own.got(withheld) || !strings.Contains(string(res.body), "denied") {
			t.Errorf("status %d: %s; the client's server got %d requests", res.status, res.body, len(own.seen()))
		}
	})
}

// spelled joins the text of events, so that a word that was cut into pieces is found.
func spelled(body []byte) string {
	all := strings.ReplaceAll(string(body), "-", "")
	var joined strings.Builder
	for line := range strings.Lines(string(body)) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:")
		var v any
		if ok && json.Unmarshal([]byte(data), &v) == nil {
			collect(v, &joined)
		}
	}
	return all + joined.String()
}

// collect writes the strings that may be text of a message.
func collect(v any, to *strings.Builder) {
	switch v := v.(type) {
	case map[string]any:
		for name, m := range v {
			if s, ok := m.(string); ok && (name == "text" || name == "content" || name == "delta") {
				to.WriteString(s)
			} else {
				collect(m, to)
			}
		}
	case []any:
		for _, e := range v {
			collect(e, to)
		}
	}
}

// Saved prompts, their partials and variables, and the parameters of a config are applied
// before the organisation's guardrails read the request.
func TestPromptsAndParametersWriteNothingPastGuardrails(t *testing.T) {
	t.Parallel()
	g := startRanked(t)
	g.key = g.gateway.key(t, rootKey, "default", []string{"completions.write", "prompts.read"}, "")
	main := g.create(t, rootKey, "/v1/virtual-keys", fmt.Sprintf(`{"name":"main","workspace_id":"default","provider":"openai","key":%q,"custom_host":%q}`, clientKey, g.provider.url), "data.slug")
	partial := g.create(t, rootKey, "/v1/prompts/partials", fmt.Sprintf(`{"name":"part","workspace_id":"default","string":%q}`, forbidden), "slug")
	messages := func(text string) string {
		inner, _ := json.Marshal([]map[string]string{{"role": "user", "content": text}})
		outer, _ := json.Marshal(string(inner))
		return string(outer)
	}
	half := len(forbidden) / 2
	for _, c := range []struct{ name, text, variables string }{
		{"the text of a prompt", "a " + forbidden, `{}`},
		{"a partial", "a {{> " + partial + "}}", `{}`},
		{"a variable", "a {{x}}", fmt.Sprintf(`{"x":%q}`, forbidden)},
		{"two variables", "a {{x}}{{y}}", fmt.Sprintf(`{"x":%q,"y":%q}`, forbidden[:half], forbidden[half:])},
		{"a section", "a {{#x}}" + forbidden + "{{/x}}", `{"x":"yes"}`},
		{"half a partial and half a comment", "a " + forbidden[:half] + "{{! x }}" + forbidden[half:], `{}`},
	} {
		prompt := g.create(t, rootKey, "/v1/prompts", fmt.Sprintf(`{"name":"p","workspace_id":"default","string":%s,"parameters":{},"model":"gpt-4o","virtual_key":%q}`, messages(c.text), main), "slug")
		waittest.Until(t, "the prompt is known", func() bool {
			return g.as(t, g.key, "POST", "/v1/prompts/"+prompt+"/completions", `{"variables":{"x":"a","y":"b"}}`).status != 404
		})
		attack(t, "injection", c.name+" on the route of prompts writes past a guardrail", func(t *testing.T) {
			g.provider.reset()
			g.as(t, g.key, "POST", "/v1/prompts/"+prompt+"/completions", `{"variables":`+c.variables+`}`).refused(t, 446, "default.contains")
			if len(g.provider.seen()) > 0 {
				t.Errorf("the provider received %s", g.provider.seen()[0].body)
			}
		})
		for _, lists := range []string{`,"prompt_id":"` + prompt + `"`, `,"prompt_id":"` + prompt + `","input_guardrails":[{"default.regexReplace":{"rule":"Q","redactText":"x"}}]`, `,"prompt_id":"` + prompt + `","override_params":{"temperature":0}`} {
			attack(t, "injection", c.name+" with "+lists+" writes past a guardrail", func(t *testing.T) {
				res := g.send(t, "POST", "/v1/chat/completions", `{"model":"gpt-4o","messages":[{"role":"user","content":"x"}],"variables":`+c.variables+`}`, lists)
				if res.status != 446 || g.provider.got(forbidden) {
					t.Errorf("status %d, want 446; the provider received it: %t: %.300s", res.status, g.provider.got(forbidden), res.body)
				}
			})
		}
	}
	for _, c := range []struct{ name, path, body, lists string }{
		{"an override and a check", "/v1/chat/completions", chatBody, fmt.Sprintf(`,"override_params":{"messages":[{"role":"user","content":"Q"}]},"input_guardrails":[{"default.regexReplace":{"rule":"Q","redactText":%q}}]`, forbidden)},
		{"a default and a check", "/v1/responses", `{"model":"gpt-4o"}`, fmt.Sprintf(`,"default_params":{"input":"Q"},"input_guardrails":[{"default.regexReplace":{"rule":"Q","redactText":%q}}]`, forbidden)},
		{"a drop after a check", "/v1/chat/completions", `{"model":"gpt-4o","messages":[{"role":"user","content":"Q"},{"role":"user","content":"x"}]}`, fmt.Sprintf(`,"drop_params":["messages[1]"],"input_guardrails":[{"default.regexReplace":{"rule":"Q","redactText":%q}}]`, forbidden)},
		{"an override of messages in other capitals", "/v1/messages", `{"model":"gpt-4o","max_tokens":5,"messages":[{"role":"user","content":"x"}]}`, fmt.Sprintf(`,"override_params":{"MESSAGES":[{"role":"user","content":%q}]}`, forbidden)},
	} {
		attack(t, "injection", c.name+" write past a guardrail", func(t *testing.T) {
			res := g.send(t, "POST", c.path, c.body, c.lists)
			if res.status < 400 || g.provider.got(forbidden) {
				t.Errorf("status %d; the provider received it: %t: %.300s", res.status, g.provider.got(forbidden), res.body)
			}
		})
	}
}

// The guardrails of a workspace rank below those of its organisation and above configs.
func TestGuardrailsOfWorkspacesRankBelowTheOrganisation(t *testing.T) {
	t.Parallel()
	g := startRanked(t)
	own := newOwn(t)
	saved := func(name, checks, actions string) string {
		return g.create(t, rootKey, "/v1/guardrails", fmt.Sprintf(`{"name":%q,"workspace_id":"default","checks":[%s],"actions":%s}`, name, checks, actions), "slug")
	}
	writes := saved("writes", fmt.Sprintf(`{"id":"default.regexReplace","parameters":{"rule":"Q","redactText":%q}}`, forbidden), `{}`)
	sends := saved("sends", fmt.Sprintf(`{"id":"default.webhook","parameters":{"webhookURL":%q}}`, own.root), `{"deny":true}`)
	denies := saved("denies", `{"id":"default.contains","parameters":{"words":["Avocet"],"operator":"none"}}`, `{"deny":true}`)
	g.as(t, rootKey, "PUT", "/v1/admin/workspaces/default", fmt.Sprintf(`{"defaults":{"input_guardrails":[%q,%q,%q],"output_guardrails":[%q]}}`, writes, sends, denies, sends)).ok(t)
	waittest.Until(t, "they apply", func() bool {
		return g.send(t, "POST", "/v1/chat/completions", strings.Replace(chatBody, "hello", "Avocet", 1), "").status == 446
	})
	for _, r := range clientRequests {
		attack(t, "injection", "a guardrail of a workspace writes past the organisation in "+r.name, func(t *testing.T) {
			if got := g.send(t, "POST", r.path, r.body, ""); got.status != 446 || g.provider.got(forbidden) {
				t.Errorf("status %d, want 446: %.300s", got.status, got.body)
			}
		})
		attack(t, "injection", "a config writes past the workspace in "+r.name, func(t *testing.T) {
			got := g.send(t, "POST", r.path, strings.ReplaceAll(r.body, "a Q", "a Z"), `,"input_mutators":[{"default.regexReplace":{"rule":"Z","redactText":"Avocet"}}]`)
			if got.status != 446 || g.provider.got("Avocet") {
				t.Errorf("status %d, want 446: %.300s", got.status, got.body)
			}
		})
		if r.name == "embeddings" {
			continue
		}
		attack(t, "injection", "a webhook of a workspace reads what the organisation withholds in "+r.name, func(t *testing.T) {
			reply := "the " + withheld + " and the " + redacted
			g.reply.Store(&reply)
			got := g.send(t, "POST", r.path, strings.ReplaceAll(r.body, "a Q", "a "+redacted), "")
			if own.got(withheld) || own.got(redacted) || !own.got("[bird]") || strings.Contains(spelled(got.body), withheld) {
				t.Errorf("status %d; the webhook received %d requests, one of them with the text", got.status, len(own.seen()))
			}
		})
	}
}
