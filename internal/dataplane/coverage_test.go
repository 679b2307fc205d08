package dataplane_test

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
	"modelgate/internal/snapshot"
	"modelgate/internal/testing/gatewaytest"
)

var update = flag.Bool("update", false, "write the table of docs/guardrails.md")

// hidden is the word that the guardrails of these tests deny, at WORD in bodies.
const hidden = "Bluebird"

// place is where a word is in a body, and whether checks read it there.
type place struct {
	content string
	in      string // the API
	path    string // with the version; empty for the chat API
	kind    string // content type; empty for JSON
	body    string // with WORD
	stream  bool   // of a response
	// unchecked is the name of the content in the field of the log entry if checks do
	// not read it, empty if they do.
	unchecked string
	// refused is part of the message of the denial of content that checks do not read, by
	// a guardrail that denies. If it is empty, the content passes.
	refused string
}

var messages = map[string]string{
	"chat": `{"model":"m","messages":[%s]}`, "messages": `{"model":"m","max_tokens":9,"messages":[%s]}`, "responses": `{"model":"m","input":[%s]}`,
	"gemini": `{"contents":[%s]}`, "converse": `{"messages":[%s]}`,
}

// turn is a message of a user in each API.
var turn = map[string]string{
	"chat": `{"role":"user","content":"hi"}`, "messages": `{"role":"user","content":"hi"}`, "responses": `{"role":"user","content":"hi"}`,
	"gemini": `{"role":"user","parts":[{"text":"hi"}]}`, "converse": `{"role":"user","content":[{"text":"hi"}]}`,
}

var paths = map[string]string{
	"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses",
	"gemini": "/v1beta/models/m:generateContent", "converse": "/model/m/converse",
}

// conversation is content of a request with messages: the same in each API, in a message
// that follows another, or as a member of the body.
type conversation struct {
	content   string
	message   map[string]string // a message with WORD
	member    map[string]string // members of the body
	unchecked string
}

var conversations = []conversation{
	{content: "text of messages", message: map[string]string{
		"chat": `{"role":"user","content":[{"type":"text","text":"WORD"}]}`, "messages": `{"role":"user","content":[{"type":"text","text":"WORD"}]}`,
		"responses": `{"role":"user","content":[{"type":"input_text","text":"WORD"}]}`, "gemini": `{"role":"user","parts":[{"text":"WORD"}]}`,
		"converse": `{"role":"user","content":[{"text":"WORD"}]}`}},
	{content: "system prompts", member: map[string]string{
		"chat": `"messages":[{"role":"system","content":"WORD"},{"role":"user","content":"hi"}]`, "messages": `"system":"WORD"`, "responses": `"instructions":"WORD"`,
		"gemini": `"systemInstruction":{"parts":[{"text":"WORD"}]}`, "converse": `"system":[{"text":"WORD"}]`}},
	{content: "tool-call arguments", message: calls(`"WORD"`, `"a"`)},
	{content: "names in tool-call arguments", message: calls(`"x"`, `"WORD"`)},
	{content: "tool results", message: results(`"WORD"`)},
	{content: "thinking in the history", message: map[string]string{
		"chat":      `{"role":"assistant","content":"a","reasoning_content":"WORD"}`,
		"messages":  `{"role":"assistant","content":[{"type":"thinking","thinking":"WORD","signature":"c2ln"},{"type":"text","text":"a"}]}`,
		"responses": `{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"WORD"}]}`,
		"gemini":    `{"role":"model","parts":[{"text":"WORD","thought":true}]}`,
		"converse":  `{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"WORD","signature":"s"}}}]}`}},
	{content: "definitions of tools", member: map[string]string{
		"chat":      `"tools":[{"type":"function","function":{"name":"f","description":"WORD","parameters":{"type":"object"}}}]`,
		"messages":  `"tools":[{"name":"f","description":"d","input_schema":{"type":"object","properties":{"WORD":{"type":"string"}}}}]`,
		"responses": `"tools":[{"type":"function","name":"f","description":"WORD","parameters":{"type":"object"}}]`,
		"gemini":    `"tools":[{"functionDeclarations":[{"name":"f","description":"WORD"}]}]`,
		"converse":  `"toolConfig":{"tools":[{"toolSpec":{"name":"f","description":"WORD","inputSchema":{"json":{"type":"object"}}}}]}`}},
	{content: "other parameters", member: map[string]string{
		"chat": `"prediction":{"type":"content","content":"WORD"}`, "messages": `"metadata":{"user_id":"WORD"}`,
		"responses": `"text":{"format":{"type":"json_schema","name":"n","schema":{"description":"WORD"}}}`,
		"gemini":    `"generationConfig":{"responseMimeType":"application/json","responseSchema":{"type":"OBJECT","description":"WORD"}}`,
		"converse":  `"additionalModelRequestFields":{"note":"WORD"}`}},
	{content: "images", unchecked: "image", message: map[string]string{
		"chat":      `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}`,
		"responses": `{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}`,
		"converse":  `{"role":"user","content":[{"image":{"format":"png","source":{"bytes":"AAAA"}}}]}`}},
	{content: "images", unchecked: "media", message: map[string]string{
		"messages": `{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}`,
		"gemini":   `{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}`}},
	{content: "encrypted thinking", unchecked: "encrypted", message: map[string]string{
		"messages":  `{"role":"assistant","content":[{"type":"redacted_thinking","data":"AAAA"},{"type":"text","text":"a"}]}`,
		"responses": `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"AAAA"}`}},
}

// calls are messages with a tool call whose arguments have a value with a name.
func calls(value, name string) map[string]string {
	object := `{` + name + `:` + value + `}`
	text := strings.ReplaceAll(object, `"`, `\"`)
	return map[string]string{
		"chat":      `{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"` + text + `"}}]},{"role":"tool","tool_call_id":"c1","content":"r"}`,
		"messages":  `{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":` + object + `}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"r"}]}`,
		"responses": `{"type":"function_call","call_id":"c1","name":"f","arguments":"` + text + `"},{"type":"function_call_output","call_id":"c1","output":"r"}`,
		"gemini":    `{"role":"model","parts":[{"functionCall":{"name":"f","args":` + object + `}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"r":"x"}}}]}`,
		"converse":  `{"role":"assistant","content":[{"toolUse":{"toolUseId":"c1","name":"f","input":` + object + `}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"c1","content":[{"text":"r"}]}}]}`,
	}
}

// results are messages with a tool call and its result.
func results(text string) map[string]string {
	out := map[string]string{}
	for in, message := range calls(`"x"`, `"a"`) {
		out[in] = strings.NewReplacer(`"content":"r"`, `"content":`+text, `"output":"r"`, `"output":`+text, `{"r":"x"}`, `{"r":`+text+`}`, `{"text":"r"}`, `{"json":{"k":`+text+`}}`).Replace(message)
	}
	return out
}

// requests are the places of requests.
func requests(t *testing.T) (list []place) {
	for _, c := range conversations {
		for in, path := range paths {
			p := place{content: c.content, in: in, path: path, unchecked: c.unchecked}
			switch {
			case c.message[in] != "":
				p.body = fmt.Sprintf(messages[in], turn[in]+","+c.message[in])
			case strings.HasPrefix(c.member[in], `"messages"`):
				p.body = `{"model":"m",` + c.member[in] + `}`
			case c.member[in] != "":
				p.body = strings.TrimSuffix(fmt.Sprintf(messages[in], turn[in]), "}") + "," + c.member[in] + "}"
			default:
				continue
			}
			list = append(list, p)
		}
	}
	form, formKind := formOf(t, "batch", batchRow("a", "WORD"), true)
	audio, audioKind := audioForm(t, "WORD")
	return append(list, []place{
		{content: "prompts and inputs", in: "completions", path: "/v1/completions", body: `{"model":"m","prompt":["a","WORD"]}`},
		{content: "prompts and inputs", in: "embeddings", path: "/v1/embeddings", body: `{"model":"m","input":["a","WORD"]}`},
		{content: "prompts and inputs", in: "images", path: "/v1/images/generations", body: `{"model":"m","prompt":"WORD"}`},
		{content: "prompts and inputs", in: "rerank", path: "/v1/rerank", body: `{"model":"m","query":"q","documents":[{"text":"WORD"}]}`},
		{content: "prompts and inputs", in: "moderations", path: "/v1/moderations", body: `{"model":"m","input":"WORD"}`},
		{content: "prompts and inputs", in: "speech", path: "/v1/audio/speech", body: `{"model":"m","voice":"alloy","input":"WORD"}`},
		{content: "fields of forms", in: "transcriptions", path: "/v1/audio/transcriptions", body: audio, kind: audioKind},
		{content: "token arrays", in: "embeddings", path: "/v1/embeddings", body: `{"model":"m","input":[1,2]}`, unchecked: "tokens", refused: "tokens instead of text"},
		{content: "token arrays", in: "completions", path: "/v1/completions", body: `{"model":"m","prompt":[1,2]}`, unchecked: "tokens", refused: "tokens instead of text"},
		{content: "rows of batches", in: "files", path: "/v1/files", body: form, kind: formKind},
		{content: "rows of batches", in: "batches of messages", path: "/v1/messages/batches", body: `{"requests":[{"custom_id":"a","params":{"model":"m","messages":[{"role":"user","content":"WORD"}]}}]}`},
		{content: "JSON", in: "pass-through", path: "/v1/some/path", body: `{"a":[{"b":"a WORD"}]}`},
		{content: "names that are not those of fields", in: "pass-through", path: "/v1/some/path", body: `{"a":{"WORD":1}}`},
		{content: "text", in: "pass-through", path: "/v1/some/path", kind: "text/plain", body: "a WORD"},
		{content: "text", in: "pass-through, of unknown type", path: "/v1/some/path", kind: "application/octet-stream", body: "a WORD"},
		{content: "fields of forms", in: "pass-through, urlencoded", path: "/v1/some/path", kind: "application/x-www-form-urlencoded", body: "a=b&c=Blue%62ird"},
		{content: "JSON in strings, with its escapes decoded", in: "pass-through", path: "/v1/some/path", body: `{"a":"{\"b\":\"Blue\\u0062ird\"}"}`},
		{content: "queries", in: "pass-through", path: "/v1/some/path?q=Blue%62ird", body: `{"a":"b"}`},
		{content: "other bytes", in: "pass-through", path: "/v1/some/path", kind: "application/octet-stream", body: "\x00\xff\x01", unchecked: "request body"},
	}...)
}

// audioForm returns a form with an audio file and a prompt, and its type.
func audioForm(t *testing.T, prompt string) (body, kind string) {
	t.Helper()
	body, kind = formOf(t, "x", "audio", true)
	boundary := strings.TrimPrefix(kind, "multipart/form-data; boundary=")
	field := "--" + boundary + "\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\n" + prompt + "\r\n"
	return field + "--" + boundary + "\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n" + body, kind
}

// coverageProvider answers with the response of a place.
type coverageProvider struct {
	response atomic.Pointer[place]
	received atomic.Bool // the word
}

func (p *coverageProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	_, _ = body.ReadFrom(r.Body)
	p.received.Store(strings.Contains(body.String(), hidden))
	response := place{body: `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"fine"},"finish_reason":"stop"}]}`}
	if a := p.response.Load(); a != nil {
		response = *a
	}
	kind := response.kind
	switch {
	case kind == "" && response.stream:
		kind = "text/event-stream"
	case kind == "":
		kind = "application/json"
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write([]byte(strings.ReplaceAll(response.body, "WORD", hidden)))
}

// responses are the places of responses. Those of conversations are of a provider of the
// chat API, in the API of the client.
func responses() (list []place) {
	const whole = `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant",%s},"finish_reason":"stop"}]}`
	const event = `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant",%s}}]}` + "\n\n"
	for content, member := range map[string]string{
		"text of messages": `"content":"a WORD"`, "thinking": `"content":"a","reasoning_content":"a WORD"`,
		"tool-call arguments":          `"content":null,"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":\"WORD\"}"}}]`,
		"names in tool-call arguments": `"content":null,"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{\"WORD\":1}"}}]`,
	} {
		for in, path := range paths {
			list = append(list, place{content: content, in: in, path: path, body: fmt.Sprintf(whole, member)})
			switch in {
			case "gemini":
				path = "/v1beta/models/m:streamGenerateContent?alt=sse"
			case "converse":
				path = "/model/m/converse-stream"
			}
			list = append(list, place{content: content, in: in, path: path, stream: true, body: fmt.Sprintf(event, member) + finish + done})
		}
	}
	return append(list, []place{
		{content: "text", in: "completions", path: "/v1/completions", body: `{"choices":[{"index":0,"text":"WORD","finish_reason":"stop"}]}`},
		{content: "revised prompts", in: "images", path: "/v1/images/generations", body: `{"data":[{"b64_json":"AAAA","revised_prompt":"WORD"}]}`},
		{content: "text", in: "transcriptions", path: "/v1/audio/transcriptions", body: `{"text":"WORD"}`},
		{content: "text", in: "transcriptions, as text", path: "/v1/audio/transcriptions", kind: "text/plain; charset=utf-8", body: "a WORD\n"},
		{content: "rows of batches", in: "files", path: "/v1/files/file-1/content", kind: "application/jsonl", body: `{"custom_id":"a","response":{"body":{"choices":[{"message":{"content":"WORD"}}]}}}` + "\n"},
		{content: "JSON", in: "pass-through", path: "/v1/some/path", body: `[{"a":"WORD"}]`},
		{content: "names that are not those of fields", in: "pass-through", path: "/v1/some/path", body: `{"WORD":1}`},
		{content: "server-sent events", in: "pass-through", path: "/v1/some/path", stream: true, body: "data: {\"a\":\"WORD\"}\n\n"},
		{content: "text", in: "pass-through", path: "/v1/some/path", kind: "text/plain", body: "a WORD"},
		{content: "text", in: "pass-through, of unknown type", path: "/v1/some/path", kind: "application/x-unknown", body: "a WORD"},
		{content: "lines and sequences of JSON", in: "pass-through", path: "/v1/some/path", kind: "application/x-ndjson", body: "{\"a\":1}\n{\"a\":\"WORD\"}\n"},
		{content: "JSON in strings, with its escapes decoded", in: "pass-through", path: "/v1/some/path", body: `{"a":"{\"b\":\"Blue\\u0062ird\"}"}`},
		{content: "other bytes", in: "pass-through", path: "/v1/some/path", kind: "application/octet-stream", body: "\x00\xff WORD", unchecked: "response body"},
		{content: "speech and images", in: "speech", path: "/v1/audio/speech", kind: "audio/mpeg", body: "\x00\xff WORD", unchecked: "response body"},
	}...)
}

const denyHidden = `{"id":"g","deny":true,"default.contains":{"words":["` + hidden + `"],"operator":"none","scope":"all"}}`

// send sends the request of a place.
func (p place) send(t *testing.T, g *gatewaytest.Gateway, config, body string) gatewaytest.Response {
	t.Helper()
	method := http.MethodPost
	if strings.HasPrefix(p.path, "/v1/files/") {
		method, body = http.MethodGet, ""
	}
	req, err := http.NewRequestWithContext(t.Context(), method, g.Root+p.path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	kind := p.kind
	if kind == "" {
		kind = "application/json"
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("x-gateway-api-key", gatewaytest.Key)
	req.Header.Set("x-gateway-config", config)
	return g.Do(req)
}

func TestEveryContentOfRequestsIsReadOrNamed(t *testing.T) {
	t.Parallel()
	p := new(coverageProvider)
	up := httptest.NewServer(p)
	defer up.Close()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p, Settings: unrecorded, Managed: []snapshot.ManagedProvider{
		{Slug: "anthropic", Provider: "anthropic", Settings: provider.Settings{Key: secret.New("k"), CustomHost: up.URL + "/v1"}},
	}})
	for _, place := range requests(t) {
		p.received.Store(false)
		config := guarded(`"input_guardrails":[` + denyHidden + `]`)
		if place.in == "batches of messages" { // others have none that the gateway could follow
			config = strings.Replace(config, "@simulator", "@anthropic", 1)
		}
		res := place.send(t, g, config, strings.ReplaceAll(place.body, "WORD", hidden))
		place.check(t, g, res, res.Status == 446 && strings.Contains(string(res.Body), cmp.Or(place.refused, "default.contains")))
		if p.received.Load() && place.unchecked == "" {
			t.Errorf("%s of %s: the provider received the word", place.content, place.in)
		}
	}
}

func TestEveryContentOfResponsesIsReadOrNamed(t *testing.T) {
	t.Parallel()
	p := new(coverageProvider)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p, Settings: unrecorded})
	audio, audioKind := audioForm(t, "hi")
	for _, place := range responses() {
		p.response.Store(&place)
		ask, body := place, `{"model":"m","prompt":"hi","input":"hi","voice":"alloy","a":1}`
		ask.kind = ""
		switch {
		case messages[place.in] != "":
			body = fmt.Sprintf(messages[place.in], turn[place.in])
		case strings.HasPrefix(place.in, "transcriptions"):
			body, ask.kind = audio, audioKind
		}
		if place.stream && place.in != "gemini" && place.in != "converse" {
			body = strings.TrimSuffix(body, "}") + `,"stream":true}`
		}
		res := ask.send(t, g, guarded(`"output_guardrails":[`+denyHidden+`]`), body)
		denied := strings.Contains(string(res.Body), "default.contains") && !strings.Contains(string(res.Body), hidden)
		place.check(t, g, res, denied)
	}
}

// check reports an error if the content was neither read nor named in the log, or the
// table says otherwise.
func (p place) check(t *testing.T, g *gatewaytest.Gateway, res gatewaytest.Response, denied bool) {
	t.Helper()
	switch {
	case p.unchecked == "", p.refused != "":
		if !denied {
			t.Errorf("%s of %s (stream %t) is not read: status %d: %.400s", p.content, p.in, p.stream, res.Status, res.Body)
		}
	case denied:
		t.Errorf("%s of %s is read", p.content, p.in)
	case at(entryOf(t, g, res.Header.Get("x-gateway-trace-id")), "unchecked.0") != p.unchecked:
		t.Errorf("%s of %s: status %d, unchecked does not name %q: %v %.300s", p.content, p.in, res.Status, p.unchecked, entryOf(t, g, res.Header.Get("x-gateway-trace-id"))["unchecked"], res.Body)
	}
}

const (
	coveragePage  = "../../docs/guardrails.md"
	coverageStart = "<!-- The table is generated: go test ./internal/dataplane -run TestCoverage -update -->\n"
	coverageEnd   = "<!-- End of the table. -->\n"
)

// coverageTable returns the table of the page, with one row for each content.
func coverageTable(t *testing.T) string {
	var b strings.Builder
	for _, side := range []struct {
		name   string
		places []place
	}{{"request", requests(t)}, {"response", responses()}} {
		fmt.Fprintf(&b, "\n| content of a %s | read in | not read, and named in `unchecked` |\n|---|---|---|\n", side.name)
		var order []string
		read, named := map[string][]string{}, map[string][]string{}
		for _, p := range side.places {
			if read[p.content] == nil && named[p.content] == nil {
				order = append(order, p.content)
			}
			in := p.in
			if p.unchecked != "" {
				named[p.content] = appendOnce(named[p.content], in+" (`"+p.unchecked+"`)")
			} else {
				read[p.content] = appendOnce(read[p.content], in)
			}
		}
		for _, content := range sorted(order) {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", content, strings.Join(sorted(read[content]), ", "), strings.Join(sorted(named[content]), ", "))
		}
	}
	return b.String() + "\n"
}

func appendOnce(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

func TestCoverageOfChecksIsThatOfThePage(t *testing.T) {
	raw, err := os.ReadFile(coveragePage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), coverageStart)
	_, after, ended := strings.Cut(rest, coverageEnd)
	if !ok || !ended {
		t.Fatalf("%s lacks the lines around the table", coveragePage)
	}
	want := before + coverageStart + coverageTable(t) + coverageEnd + after
	if *update {
		if err := os.WriteFile(coveragePage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(raw) != want {
		t.Errorf("%s differs from the places of this test; run go test ./internal/dataplane -run TestCoverage -update", coveragePage)
	}
}
