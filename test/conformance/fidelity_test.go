package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// of are the headers of a request for p as a provider of the table.
func of(id string, p *provider, more ...string) []string {
	return append([]string{"x-gateway-api-key", bootstrapKey, "x-gateway-provider", id, "x-gateway-custom-host", p.url, "Authorization", "Bearer " + credential}, more...)
}

const responsesBody = `{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"m","output":[{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hello","annotations":[]}]}],"usage":{"input_tokens":7,"output_tokens":2,"total_tokens":9}}`

// ofOpenAI answers on both endpoints; refused is what the one for chat says
// instead, if it is not empty.
func ofOpenAI(refused string) behaviour {
	return func(w http.ResponseWriter, r *http.Request, in received) {
		switch {
		case strings.HasSuffix(in.uri, "/responses"):
			says(200, "application/json", responsesBody)(w, r, in)
		case refused != "":
			says(404, "application/json", refused)(w, r, in)
		default:
			canned(w, r, in)
		}
	}
}

// paths returns the paths of what arrived, and forgets them.
func (p *provider) paths() (list []string) {
	for _, in := range p.requests() {
		list = append(list, strings.TrimPrefix(in.uri, "/v1"))
	}
	p.forget()
	return list
}

func TestEndpointsFollowFromTheModel(t *testing.T) {
	g, _ := start(t)
	for _, tt := range []struct{ model, chat, responses, messages string }{
		{"gpt-4o", "/chat/completions", "/responses", "/chat/completions"},
		{"gpt-5-codex", "/responses", "/responses", "/responses"},
		{"gpt-4o-search-preview", "/chat/completions", "/chat/completions", "/chat/completions"},
	} {
		for path, want := range map[string]string{"/v1/chat/completions": tt.chat, "/v1/responses": tt.responses, "/v1/messages": tt.messages} {
			prove(t, "M-122", tt.model+" for "+path, func(t *testing.T) {
				p := newProvider(t, ofOpenAI(""))
				content := `"messages":[{"role":"user","content":"x"}],"max_tokens":100`
				if path == "/v1/responses" {
					content = `"input":"x"`
				}
				g.do(t, "POST", path, node(`"model":"`+tt.model+`"`, content), of("openai", p)...).wantOK(t)
				if got := p.paths(); !slices.Equal(got, []string{want}) {
					t.Errorf("asked %q, want %s", got, want)
				}
			})
		}
	}
}

func TestRefusedEndpointsAreReplacedAndRemembered(t *testing.T) {
	g, _ := start(t)
	p := newProvider(t, ofOpenAI(`{"error":{"message":"This model is only supported in v1/responses and not in v1/chat/completions.","type":"invalid_request_error","param":"model","code":null}}`))
	ask := func(t *testing.T, key string, want ...string) {
		t.Helper()
		header := append(of("openai", p)[:6], "Authorization", "Bearer "+key)
		g.do(t, "POST", "/v1/chat/completions", `{"model":"unheard-of","messages":[{"role":"user","content":"x"}]}`, header...).wantOK(t)
		if got := p.paths(); !slices.Equal(got, want) {
			t.Errorf("asked %q, want %q", got, want)
		}
	}
	prove(t, "M-123", "the first request", func(t *testing.T) { ask(t, credential, "/chat/completions", "/responses") })
	prove(t, "M-123", "the second request", func(t *testing.T) { ask(t, credential, "/responses") })
	prove(t, "M-123", "another credential", func(t *testing.T) { ask(t, "another", "/chat/completions", "/responses") })
	prove(t, "M-123", "an error about something else", func(t *testing.T) {
		other := newProvider(t, ofOpenAI(`{"error":{"message":"The model does not exist","type":"invalid_request_error","param":"model","code":"model_not_found"}}`))
		got := g.do(t, "POST", "/v1/chat/completions", `{"model":"unheard-of","messages":[{"role":"user","content":"x"}]}`, of("openai", other)...)
		if asked := other.paths(); got.status != 404 || !slices.Equal(asked, []string{"/chat/completions"}) {
			t.Errorf("status %d, asked %q", got.status, asked)
		}
	})
}

// breaks writes the parts of a stream and breaks the connection.
func breaks(parts ...string) behaviour {
	return func(w http.ResponseWriter, _ *http.Request, _ received) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, part := range parts {
			io.WriteString(w, part)
			http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	}
}

// asker is a client protocol: where it sends a streaming request and what.
type asker struct {
	name, path, body string
	// ended are the words of its streams by which a call is finished, and
	// failed those by which a stream has failed, one of which is enough.
	ended, failed []string
}

var askers = []asker{
	{"messages", "/v1/messages", `{"model":"m","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"x"}]}`, []string{"content_block_stop", "message_stop"}, []string{"event: error"}},
	{"responses", "/v1/responses", `{"model":"m","stream":true,"input":"x"}`, []string{"arguments.done", "output_item.done", "response.completed"}, []string{`"type":"error"`, "response.failed"}},
	{"gemini", "/v1beta/models/m:streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":"x"}]}]}`, []string{"functionCall", "finishReason"}, []string{`"error"`}},
	{"converse", "/model/m/converse-stream", `{"messages":[{"role":"user","content":[{"text":"x"}]}]}`, []string{"contentBlockStop", "messageStop"}, []string{"exception"}},
}

const callChunk = `data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"look","arguments":"{\"q\":"}}]},"finish_reason":null}]}` + "\n\n"

func TestUnfinishedCallsAreNeverFinished(t *testing.T) {
	g, _ := start(t)
	for _, a := range askers {
		for name, more := range map[string]string{
			"the connection breaks": "",
			"no reason is given":    done,
			"the provider fails":    `data: {"error":{"message":"overloaded","code":503}}` + "\n\n",
		} {
			prove(t, "M-124", a.name+" when "+name, func(t *testing.T) {
				p := newProvider(t, breaks(callChunk, more))
				got := g.do(t, "POST", a.path, a.body, of("deepseek", p)...)
				for _, word := range a.ended {
					if bytes.Contains(got.body, []byte(word)) {
						t.Errorf("the stream has %s: %s", word, got.body)
					}
				}
				if !slices.ContainsFunc(a.failed, func(word string) bool { return bytes.Contains(got.body, []byte(word)) }) {
					t.Errorf("the stream does not say that it failed: %s", got.body)
				}
			})
		}
	}
}

func TestTornEventsAreNotSent(t *testing.T) {
	g, _ := start(t)
	const whole, torn = `data: {"id":"c","choices":[{"index":0,"delta":{"content":"whole"},"finish_reason":null}]}` + "\n\n", `data: {"id":"c","choices":[{"index":0,"delta":{"content":"torn`
	for name, say := range map[string]behaviour{"a break": breaks(whole, torn), "an early end": streams(whole + torn)} {
		prove(t, "M-125", "half an event before "+name, func(t *testing.T) {
			p := newProvider(t, say)
			got := g.do(t, "POST", "/v1/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`, of("openai-compatible", p)...)
			if !bytes.Contains(got.body, []byte("whole")) || bytes.Contains(got.body, []byte("torn")) || !bytes.Contains(got.body, []byte(`"error"`)) {
				t.Errorf("the client got %s", got.body)
			}
			for line := range strings.Lines(string(got.body)) {
				if data, ok := strings.CutPrefix(line, "data: "); ok && !json.Valid([]byte(data)) && !strings.HasPrefix(data, "[DONE]") {
					t.Errorf("an event is not JSON: %s", data)
				}
			}
		})
	}
}

// sentTo sends a conversation to a provider of the table and returns what
// arrived and what was announced.
func (g *gateway) sentTo(t *testing.T, id, path, body string) (sent, announced string, got response) {
	t.Helper()
	p := newProvider(t, says(418, "application/json", `{"message":"enough"}`))
	got = g.do(t, "POST", path, body, of(id, p, "x-gateway-cloud-a-region", "eu-west-1")...)
	if list := p.requests(); len(list) > 0 {
		sent = string(list[0].body)
	}
	return sent, got.header.Get("x-gateway-params"), got
}

// turns returns a conversation of a chat client whose messages follow its first.
func turns(messages ...string) string {
	return `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"x"},` + strings.Join(messages, ",") + `]}`
}

// callTurn returns an assistant's turn in chat with a call.
func callTurn(id, arguments string) string {
	return fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":{"name":"look","arguments":%q}}]}`, id, arguments)
}

func resultTurn(id string) string {
	return fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":"found"}`, id)
}

// membersOf returns the values of a member in JSON, in order.
func membersOf(body, name string) (list []string) {
	for _, rest := range strings.Split(body, `"`+name+`":"`)[1:] {
		value, _, _ := strings.Cut(rest, `"`)
		list = append(list, value)
	}
	return list
}

func TestCallsOfAHistoryReachEveryProvider(t *testing.T) {
	g, _ := start(t)
	for id, member := range map[string]string{"anthropic": "tool_use_id", "bedrock": "toolUseId"} {
		prove(t, "M-126", "repeated ids at "+id, func(t *testing.T) {
			sent, announced, got := g.sentTo(t, id, "/v1/chat/completions", turns(callTurn("call_0", "{}"), resultTurn("call_0"), callTurn("call_0", "{}"), resultTurn("call_0")))
			ids := membersOf(sent, member)
			slices.Sort(ids)
			if ids = slices.Compact(ids); !slices.Equal(ids, []string{"call_0", "call_0_2"}) || !strings.Contains(announced, "messages[3].tool_calls[0].id;adapted") {
				t.Errorf("ids %q, announced %s: %s %s", ids, announced, sent, got.body)
			}
		})
	}
	for _, id := range []string{"anthropic", "google", "bedrock", "cohere"} {
		prove(t, "M-127", "broken arguments at "+id, func(t *testing.T) {
			sent, announced, got := g.sentTo(t, id, "/v1/chat/completions", turns(callTurn("call_0", `{"torn":`), resultTurn("call_0")))
			if !strings.Contains(strings.ReplaceAll(sent, `\`, ""), `{"INVALID_JSON":"{"torn":"}`) || !strings.Contains(announced, "text in an object") {
				t.Errorf("sent %s, announced %s: %s", sent, announced, got.body)
			}
		})
		prove(t, "M-128", "no ids at "+id, func(t *testing.T) {
			sent, announced, got := g.sentTo(t, id, "/v1/chat/completions", turns(callTurn("", "{}"), resultTurn("")))
			if !strings.Contains(sent, "found") || !strings.Contains(announced, "messages[1].tool_calls[0].id;adapted") {
				t.Errorf("sent %s, announced %s: %s", sent, announced, got.body)
			}
		})
	}
}

func TestHistoriesOfOneAPIReachOthersOrAreRefused(t *testing.T) {
	g, _ := start(t)
	const shell = `{"model":"m","input":[{"role":"user","content":"x"},{"type":"local_shell_call","id":"lsh_1","call_id":"call_1","status":"completed","action":{"type":"exec","command":["ls","-la"],"env":{}}},{"type":"local_shell_call_output","id":"call_1","output":"total 0"},{"role":"user","content":"y"}]}`
	for _, id := range []string{"anthropic", "google", "bedrock", "cohere", "deepseek"} {
		prove(t, "M-129", "a shell call at "+id, func(t *testing.T) {
			sent, announced, got := g.sentTo(t, id, "/v1/responses", shell)
			if !strings.Contains(sent, "ls") || !strings.Contains(sent, "total 0") || !strings.Contains(announced, "local_shell_call") {
				t.Errorf("sent %s, announced %s: %s", sent, announced, got.body)
			}
		})
		prove(t, "M-129", "a compaction at "+id, func(t *testing.T) {
			sent, _, got := g.sentTo(t, id, "/v1/responses", `{"model":"m","input":[{"type":"compaction","id":"cmp_1","encrypted_content":"c2VjcmV0"},{"role":"user","content":"y"}]}`)
			if sent != "" || got.status != 400 || !bytes.Contains(got.body, []byte("input[0]")) {
				t.Errorf("status %d, sent %s: %s", got.status, sent, got.body)
			}
		})
		prove(t, "M-129", "a reference to an item at "+id, func(t *testing.T) {
			sent, _, got := g.sentTo(t, id, "/v1/responses", `{"model":"m","input":[{"type":"item_reference","id":"msg_1"},{"role":"user","content":"y"}]}`)
			if sent != "" || got.status != 400 || !bytes.Contains(got.body, []byte("input[0]")) {
				t.Errorf("status %d, sent %s: %s", got.status, sent, got.body)
			}
		})
		prove(t, "M-129", "a list of tools at "+id, func(t *testing.T) {
			sent, announced, got := g.sentTo(t, id, "/v1/responses", `{"model":"m","input":[{"type":"mcp_list_tools","id":"mcpl_1","server_label":"s","tools":[]},{"role":"user","content":"y"}]}`)
			if !strings.Contains(sent, "y") || !strings.Contains(announced, "input[0];dropped") {
				t.Errorf("sent %s, announced %s: %s", sent, announced, got.body)
			}
		})
	}
	for _, id := range []string{"anthropic", "google", "deepseek"} {
		prove(t, "M-129", "a guardrail at "+id, func(t *testing.T) {
			sent, _, got := g.sentTo(t, id, "/model/m/converse", `{"messages":[{"role":"user","content":[{"text":"x"}]}],"guardrailConfig":{"guardrailIdentifier":"g","guardrailVersion":"1"}}`)
			if sent != "" || got.status != 400 || !bytes.Contains(got.body, []byte("guardrailConfig")) {
				t.Errorf("status %d, sent %s: %s", got.status, sent, got.body)
			}
		})
	}
}

func TestResponsesGiveTheirModelTheChosenName(t *testing.T) {
	g, _ := start(t)
	for _, tt := range []struct{ name, path, config, want string }{
		{"messages by default", "/v1/messages", "", "asked-for"},
		{"chat by default", "/v1/chat/completions", "", "served-1"},
		{"messages that want the served", "/v1/messages", "served", "served-1"},
		{"chat that wants the requested", "/v1/chat/completions", "requested", "asked-for"},
	} {
		prove(t, "M-130", tt.name, func(t *testing.T) {
			p := newProvider(t, says(200, "application/json", `{"id":"c","object":"chat.completion","created":1,"model":"served-1","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}]}`))
			header := of("openai-compatible", p)
			if tt.config != "" {
				header = []string{"x-gateway-api-key", bootstrapKey, "x-gateway-config", leaf(p, `"response_model":"`+tt.config+`"`)}
			}
			got := g.do(t, "POST", tt.path, `{"model":"asked-for","max_tokens":100,"messages":[{"role":"user","content":"x"}]}`, header...).wantOK(t)
			if model := got.object(t)["model"]; model != tt.want {
				t.Errorf("model %v, want %s", model, tt.want)
			}
		})
		prove(t, "M-130", tt.name+", streamed", func(t *testing.T) {
			p := newProvider(t, streams(strings.ReplaceAll(chatEvents, `"model":"m"`, `"model":"served-1"`)+done))
			header := of("openai-compatible", p)
			if tt.config != "" {
				header = []string{"x-gateway-api-key", bootstrapKey, "x-gateway-config", leaf(p, `"response_model":"`+tt.config+`"`)}
			}
			got := g.do(t, "POST", tt.path, `{"model":"asked-for","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"x"}]}`, header...).wantOK(t)
			named := bytes.Count(got.body, []byte(`"model":"`))
			if named == 0 || bytes.Count(got.body, []byte(`"model":"`+tt.want+`"`)) != named {
				t.Errorf("a model other than %s, or none, is named: %s", tt.want, got.body)
			}
		})
	}
}

func TestMediaInTheAlphabetOfURLsReachEveryProvider(t *testing.T) {
	g, _ := start(t)
	const sent, want = "-_-_-_8", "+/+/+/8=" // the same five bytes
	for _, id := range []string{"openai-compatible", "anthropic", "bedrock"} {
		prove(t, "M-131", id, func(t *testing.T) {
			got, _, r := g.sentTo(t, id, "/v1beta/models/m:generateContent", `{"contents":[{"role":"user","parts":[{"text":"x"},{"inlineData":{"mimeType":"image/png","data":"`+sent+`"}}]}]}`)
			if !strings.Contains(strings.ReplaceAll(got, `\/`, "/"), want) || strings.Contains(got, sent) {
				t.Errorf("sent %s: %s", got, r.body)
			}
		})
	}
}

func TestFormsNameTheirProviderInTheModel(t *testing.T) {
	g, stored := start(t)
	for _, first := range []string{"model", "file"} {
		prove(t, "M-132", first+" first", func(t *testing.T) {
			stored.forget()
			var b bytes.Buffer
			w := multipart.NewWriter(&b)
			if first == "model" {
				w.WriteField("model", "@stored/whisper-1")
			}
			part, err := w.CreateFormFile("file", "a.wav")
			if err != nil {
				t.Fatal(err)
			}
			part.Write(bytes.Repeat([]byte("sound"), 50_000))
			if first == "file" {
				w.WriteField("model", "@stored/whisper-1")
			}
			w.Close()
			g.do(t, "POST", "/v1/audio/transcriptions", b.String(), "x-gateway-api-key", bootstrapKey, "Content-Type", w.FormDataContentType()).wantOK(t)
			in := stored.only(t)
			form, err := multipart.NewReader(bytes.NewReader(in.body), w.Boundary()).ReadForm(1 << 20)
			if err != nil || !slices.Equal(form.Value["model"], []string{"whisper-1"}) || len(form.File["file"]) != 1 || form.File["file"][0].Size != 250_000 || in.header.Get("Authorization") != "Bearer "+storedKey {
				t.Errorf("the provider got %+v with %s: %v", form, in.header, err)
			}
		})
	}
}

func TestVendorsOwnPathsReachThatVendor(t *testing.T) {
	g, _ := start(t)
	for _, tt := range []struct{ provider, method, path, body string }{
		{"google", "GET", "/v1beta/files?pageSize=5", ""},
		{"google", "DELETE", "/v1beta/files/abc", ""},
		{"google", "POST", "/upload/v1beta/files", `{"file":{}}`},
		{"google", "GET", "/v1beta/models/gemini-2.5-pro", ""},
		{"cohere", "POST", "/v2/chat", `{"model":"command-a","messages":[]}`},
		{"ollama", "GET", "/api/tags", ""},
	} {
		prove(t, "M-133", tt.method+" "+tt.path, func(t *testing.T) {
			p := newProvider(t, nil)
			header := []string{"x-gateway-api-key", bootstrapKey, "x-gateway-provider", tt.provider, "x-gateway-custom-host", p.root, "Authorization", "Bearer " + credential}
			g.do(t, tt.method, tt.path, tt.body, header...).wantOK(t)
			if in := p.only(t); in.method != tt.method || in.uri != tt.path || string(in.body) != tt.body {
				t.Errorf("the provider got %s %s %s", in.method, in.uri, in.body)
			}
			header[3] = "openai"
			if got := g.do(t, tt.method, tt.path, tt.body, header...); got.status != 501 {
				t.Errorf("another vendor: status %d: %s", got.status, got.body)
			}
			p.wantNoRequests(t)
		})
	}
	prove(t, "M-133", "content without a key", func(t *testing.T) {
		own := launchFor(t, "version: 1\nproviders:\n  - {slug: gem, provider: google, api_key: \"${STORED_KEY}\", custom_host: \""+simulate(t)+"\"}\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
		begun := own.do(t, "POST", "/upload/v1beta/files", `{"file":{}}`, "x-goog-api-key", bootstrapKey, "X-Goog-Upload-Protocol", "resumable", "X-Goog-Upload-Command", "start").wantOK(t)
		address := begun.header.Get("X-Goog-Upload-Url")
		path, ok := strings.CutPrefix(address, own.root)
		if !ok || strings.Contains(address, bootstrapKey) {
			t.Fatalf("address %q", address)
		}
		file := own.do(t, "POST", path, "content", "Content-Type", "text/plain", "X-Goog-Upload-Command", "upload, finalize", "X-Goog-Upload-Offset", "0").wantOK(t).object(t)
		if at(file, "file", "state") != "ACTIVE" || at(file, "file", "sizeBytes") != "7" {
			t.Errorf("file %v", file)
		}
	})
}

func TestEarlyCommentsAreSentWithinASecond(t *testing.T) {
	g, _ := start(t)
	// reads checks that the client has a comment before read is closed.
	reads := func(t *testing.T, read chan struct{}, path string, header ...string) {
		req := g.request(t, "POST", path, strings.NewReader(`{"model":"m","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"x"}]}`), append(header, "Content-Type", "application/json")...)
		began := time.Now()
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		line, err := bufio.NewReader(res.Body).ReadString('\n')
		took := time.Since(began)
		close(read)
		if err != nil || !strings.HasPrefix(line, ":") || took > 10*time.Second {
			t.Errorf("read %q after %v: %v; want a comment within about a second", line, took, err)
		}
	}
	for _, path := range []string{"/v1/chat/completions", "/v1/messages"} {
		prove(t, "M-134", path, func(t *testing.T) {
			read := make(chan struct{})
			reads(t, read, path, of("openai-compatible", newProvider(t, pausing(read)))...)
		})
	}
	prove(t, "M-134", "the last target of a hedge", func(t *testing.T) {
		read, asked := make(chan struct{}), make(chan struct{})
		last := newProvider(t, func(w http.ResponseWriter, r *http.Request, in received) {
			close(asked)
			pausing(read)(w, r, in)
		})
		failing := newProvider(t, func(w http.ResponseWriter, r *http.Request, in received) {
			select {
			case <-asked:
			case <-time.After(patience / 2):
			}
			withStatuses(503)(w, r, in)
		})
		reads(t, read, modelRoutes[0].path, "x-gateway-api-key", bootstrapKey,
			"x-gateway-config", with(tree(fallback, leaf(failing), leaf(last)), `"hedge":{"delay_ms":10,"max":1}`))
	})
}

// pausing streams a comment, and the events once the client has read it.
func pausing(read <-chan struct{}) behaviour {
	return func(w http.ResponseWriter, _ *http.Request, _ received) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, ": PROCESSING\n\n")
		http.NewResponseController(w).Flush()
		select {
		case <-read:
		case <-time.After(patience / 2):
		}
		io.WriteString(w, chatEvents+done)
	}
}

func TestUsageOfGeminiStreamsIsTheLastSnapshot(t *testing.T) {
	g, _ := start(t)
	const stream = `data: {"candidates":[{"content":{"role":"model","parts":[{"text":"a"}]},"index":0}],"usageMetadata":{"promptTokenCount":11,"cachedContentTokenCount":5,"candidatesTokenCount":1,"totalTokenCount":12}}` + "\n\n" +
		`data: {"candidates":[{"content":{"role":"model","parts":[{"text":"b"}]},"index":0}],"usageMetadata":{"promptTokenCount":11,"candidatesTokenCount":4,"thoughtsTokenCount":3,"totalTokenCount":18}}` + "\n\n" +
		`data: {"candidates":[{"content":{"role":"model","parts":[{"text":"c"}]},"finishReason":"STOP","index":0}],"usageMetadata":{"candidatesTokenCount":6,"totalTokenCount":20}}` + "\n\n"
	const last = `{"candidatesTokenCount":6,"totalTokenCount":20}`
	for _, tt := range []struct {
		name, last        string
		completion, total float64
	}{
		{"each member of the last snapshot that has it", last, 9, 20},
		{"no total of an earlier snapshot than its counters", `{"candidatesTokenCount":7}`, 10, 21},
	} {
		prove(t, "M-135", tt.name, func(t *testing.T) {
			p := newProvider(t, streams(strings.Replace(stream, last, tt.last, 1)))
			header := of("google", p)
			got := g.do(t, "POST", "/v1/chat/completions", `{"model":"gemini-2.5-flash","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"x"}]}`, header...).wantOK(t)
			var usage map[string]any
			for line := range strings.Lines(string(got.body)) {
				var chunk struct{ Usage map[string]any }
				if data, ok := strings.CutPrefix(line, "data: "); ok && json.Unmarshal([]byte(data), &chunk) == nil && chunk.Usage != nil {
					usage = chunk.Usage
				}
			}
			if details, _ := usage["prompt_tokens_details"].(map[string]any); details["cached_tokens"] != 5.0 {
				t.Errorf("usage %v, want 5 cached tokens: %s", usage, got.body)
			}
			if usage["prompt_tokens"] != 11.0 || usage["completion_tokens"] != tt.completion || usage["total_tokens"] != tt.total {
				t.Errorf("usage %v, want 11 and %v of %v: %s", usage, tt.completion, tt.total, got.body)
			}
		})
	}
}

func TestErrorsOfProvidersKeepTheirText(t *testing.T) {
	g, _ := start(t)
	long := strings.Repeat("0123456789abcdef", 256) // 4 KiB
	for _, a := range askers {
		body := strings.Replace(a.body, `"stream":true,`, "", 1)
		path := strings.NewReplacer("streamGenerateContent?alt=sse", "generateContent", "converse-stream", "converse").Replace(a.path)
		prove(t, "M-136", a.name+" with a long message", func(t *testing.T) {
			p := newProvider(t, says(400, "application/json", `{"error":{"message":"`+long+`","type":"invalid_request_error"}}`))
			if got := g.do(t, "POST", path, body, of("deepseek", p)...); got.status != 400 || !bytes.Contains(got.body, []byte(long)) {
				t.Errorf("status %d, %d bytes: %.300s", got.status, len(got.body), got.body)
			}
		})
		prove(t, "M-136", a.name+" with details", func(t *testing.T) {
			p := newProvider(t, says(422, "application/json", `{"detail":[{"loc":["body","messages",0],"msg":"first wrong"},{"loc":["body","temperature"],"msg":"second wrong"}]}`))
			got := g.do(t, "POST", path, body, of("deepseek", p)...)
			for _, word := range []string{"messages", "first wrong", "temperature", "second wrong"} {
				if !bytes.Contains(got.body, []byte(word)) {
					t.Errorf("the error does not say %q: %s", word, got.body)
				}
			}
		})
		prove(t, "M-136", a.name+" with many details", func(t *testing.T) {
			entries := make([]string, 12)
			for i := range entries {
				entries[i] = fmt.Sprintf(`{"loc":["body","messages",%d],"msg":"wrong at %d %s"}`, i, i, long[:100])
			}
			p := newProvider(t, says(422, "application/json", `{"detail":[`+strings.Join(entries, ",")+`]}`))
			got := g.do(t, "POST", path, body, of("deepseek", p)...)
			for i := range entries {
				if !bytes.Contains(got.body, fmt.Appendf(nil, "wrong at %d ", i)) {
					t.Errorf("the error lacks detail %d: %s", i, got.body)
				}
			}
		})
		prove(t, "M-136", a.name+" with a long text", func(t *testing.T) {
			p := newProvider(t, says(400, "text/plain", long))
			if got := g.do(t, "POST", path, body, of("deepseek", p)...); got.status != 400 || !bytes.Contains(got.body, []byte(long)) {
				t.Errorf("status %d, %d bytes: %.300s", got.status, len(got.body), got.body)
			}
		})
	}
}
