package security

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	tokenizer "modelgate/internal/model/tokens"
)

// reserving is a gateway whose providers are of each protocol and all in one place.
const reserving = `version: 1
providers:
  - {slug: chat, provider: openai, custom_host: HOST, api_key: "${STORED_KEY}"}
  - {slug: messages, provider: anthropic, custom_host: HOST, api_key: "${STORED_KEY}"}
  - {slug: gemini, provider: google, custom_host: HOST, api_key: "${STORED_KEY}"}
  - {slug: converse, provider: bedrock, custom_host: HOST, api_key: "${STORED_KEY}"}
  - {slug: cohere, provider: cohere, custom_host: HOST, api_key: "${STORED_KEY}"}
  - {slug: ollama, provider: ollama, custom_host: HOST}
`

func launchReserving(t *testing.T, handler http.HandlerFunc) (*gateway, *provider) {
	t.Helper()
	p := newProvider(t, handler)
	return launch(t, options{settings: strings.ReplaceAll(reserving, "HOST", p.url), env: []string{"STORED_KEY=" + storedKey}}), p
}

// budgeted makes a key with a budget of tokens that is never exceeded.
func (g *gateway) budgeted(t *testing.T, budget int) string {
	t.Helper()
	return g.mint(t, rootKey, `["completions.write"]`, fmt.Sprintf(`,"usage_limits":{"type":"tokens","credit_limit":%d,"on_budget_end":"stop"}`, budget)).secret
}

// reserved returns what a request has reserved and used of the budget of its key.
func (g *gateway) reserved(t *testing.T, r response) (reserved, used int64) {
	t.Helper()
	list, _ := g.entry(t, r)["limits"].([]any)
	if len(list) == 0 {
		t.Fatalf("status %d, the entry has no limits: %.300s", r.status, r.body)
	}
	l := list[0].(map[string]any)
	fmt.Sscan(fmt.Sprint(l["reserved"]), &reserved)
	fmt.Sscan(fmt.Sprint(l["used"]), &used)
	return reserved, used
}

// limited is an API of models. MEMBERS in a body stands for further members with their
// commas, TEXT for the text of the prompt.
type limited struct {
	name, provider, path, body string
	limit                      string // the member that limits its output to 100 tokens; empty if it has none
}

var limitedAPIs = []limited{
	{"chat", "chat", "/v1/chat/completions", `{"model":"m",MEMBERS"messages":[{"role":"user","content":"TEXT"}]}`, `"max_tokens":100`},
	{"chat streams", "chat", "/v1/chat/completions", `{"model":"m",MEMBERS"stream":true,"messages":[{"role":"user","content":"TEXT"}]}`, `"max_completion_tokens":100`},
	{"completions", "chat", "/v1/completions", `{"model":"m",MEMBERS"prompt":"TEXT"}`, `"max_tokens":100`},
	{"responses", "chat", "/v1/responses", `{"model":"m",MEMBERS"input":"TEXT"}`, `"max_output_tokens":100`},
	{"messages", "messages", "/v1/messages", `{"model":"m",MEMBERS"messages":[{"role":"user","content":"TEXT"}]}`, `"max_tokens":100`},
	{"gemini", "gemini", "/v1beta/models/m:generateContent", `{MEMBERS"contents":[{"role":"user","parts":[{"text":"TEXT"}]}]}`, `"generationConfig":{"maxOutputTokens":100}`},
	{"gemini streams", "gemini", "/v1beta/models/m:streamGenerateContent", `{MEMBERS"contents":[{"role":"user","parts":[{"text":"TEXT"}]}]}`, `"generation_config":{"max_output_tokens":100}`},
	{"converse", "converse", "/model/m/converse", `{MEMBERS"messages":[{"role":"user","content":[{"text":"TEXT"}]}]}`, `"inferenceConfig":{"maxTokens":100}`},
	{"Ollama's own API", "ollama", "/api/chat", `{"model":"m",MEMBERS"messages":[{"role":"user","content":"TEXT"}]}`, `"options":{"num_predict":100}`},
	{"Cohere's own API", "cohere", "/v2/chat", `{"model":"m",MEMBERS"messages":[{"role":"user","content":"TEXT"}]}`, `"max_tokens":100`},
	{"chat on pass-through", "chat", "/v1/deployments/d/chat/completions", `{"model":"m",MEMBERS"messages":[{"role":"user","content":"TEXT"}]}`, `"max_tokens":100`},
	{"an unknown API", "chat", "/v1/other/answers", `{"model":"m",MEMBERS"question":"TEXT"}`, ``},
	{"chat for messages", "messages", "/v1/chat/completions", `{"model":"m",MEMBERS"messages":[{"role":"user","content":"TEXT"}]}`, `"max_tokens":100`},
	{"messages for chat", "chat", "/v1/messages", `{"model":"m",MEMBERS"messages":[{"role":"user","content":"TEXT"}]}`, `"max_tokens":100`},
	{"chat for gemini", "gemini", "/v1/chat/completions", `{"model":"m",MEMBERS"messages":[{"role":"user","content":"TEXT"}]}`, `"max_tokens":100`},
	{"gemini for chat", "chat", "/v1beta/models/m:generateContent", `{MEMBERS"contents":[{"role":"user","parts":[{"text":"TEXT"}]}]}`, `"generationConfig":{"maxOutputTokens":100}`},
	{"chat for Ollama", "ollama", "/v1/chat/completions", `{"model":"m",MEMBERS"messages":[{"role":"user","content":"TEXT"}]}`, `"max_tokens":100`},
}

func (a limited) with(members, text string) string {
	if members != "" {
		members += ","
	}
	return strings.NewReplacer("MEMBERS", members, "TEXT", text).Replace(a.body)
}

// required returns the member that the API requires, empty if it requires none.
func (a limited) required() string {
	if a.path == "/v1/messages" {
		return a.limit
	}
	return ""
}

// decoys are members that limit the output in some API.
var decoys = map[string]string{
	"max_tokens":                              `"max_tokens":1`,
	"max_completion_tokens":                   `"max_completion_tokens":1`,
	"max_output_tokens":                       `"max_output_tokens":1`,
	"generationConfig":                        `"generationConfig":{"maxOutputTokens":1}`,
	"generation_config":                       `"generation_config":{"max_output_tokens":1}`,
	"inferenceConfig":                         `"inferenceConfig":{"maxTokens":1}`,
	"additionalModelRequestFields":            `"additionalModelRequestFields":{"max_tokens":1}`,
	"options.num_predict":                     `"options":{"num_predict":1}`,
	"a limit in other capitals":               `"Max_Tokens":1,"MAX_COMPLETION_TOKENS":1,"Max_Output_Tokens":1`,
	"a limit below an unknown member":         `"extra_body":{"max_tokens":1,"max_output_tokens":1}`,
	"max_new_tokens and input.max_new_tokens": `"max_new_tokens":1`,
}

// reads reports whether the API reads a field of decoys.
func (a limited) reads(decoy string) bool {
	switch {
	case a.path == "/v1/chat/completions" || a.name == "chat on pass-through":
		return decoy == "max_tokens" || decoy == "max_completion_tokens"
	case strings.HasPrefix(a.name, "gemini"):
		return strings.HasPrefix(decoy, "generation")
	}
	first, _, _ := strings.Cut(strings.Trim(a.limit, `"`), `"`)
	return first != "" && strings.HasPrefix(decoy, first)
}

// unknownOutput is what is reserved for the output of a model without a known limit.
const unknownOutput = 4096

// TestOnlyFieldsOfTheCalledAPIBoundWhatIsReserved sends limits of output that the API does
// not read. The provider, which does not either, would write as much as it likes.
func TestOnlyFieldsOfTheCalledAPIBoundWhatIsReserved(t *testing.T) {
	t.Parallel()
	g, p := launchReserving(t, nil)
	key := g.budgeted(t, 1_000_000)
	for _, a := range limitedAPIs {
		for name, members := range decoys {
			if a.reads(name) {
				continue
			}
			attack(t, "exhaustion", name+" reserves nothing less in "+a.name, func(t *testing.T) {
				p.reset()
				if a.required() != "" {
					members = `"max_tokens":4096,` + members
				}
				r := g.as(t, key, "POST", a.path, a.with(members, "hello"), "x-gateway-provider", "@"+a.provider)
				if r.status == http.StatusBadRequest && len(p.seen()) == 0 {
					first, _, _ := strings.Cut(strings.Trim(decoys[name], `"`), `"`)
					r.refused(t, http.StatusBadRequest, first) // the API does not accept it
					return
				}
				if reserved, _ := g.reserved(t, r); reserved < unknownOutput {
					t.Errorf("status %d, reserved %d tokens, want %d at least", r.status, reserved, unknownOutput)
				}
			})
		}
		attack(t, "exhaustion", "the limit of "+a.name+" bounds what is reserved", func(t *testing.T) {
			r := g.as(t, key, "POST", a.path, a.with(a.limit, "hello"), "x-gateway-provider", "@"+a.provider)
			if reserved, _ := g.reserved(t, r); (reserved < 200) != (a.limit != "") || reserved < 100 {
				t.Errorf("status %d, reserved %d tokens", r.status, reserved)
			}
		})
	}
}

// TestLimitsThatTheGatewaySendsBindWhatIsReserved has the gateway raise a limit: the
// budget for reasoning is added to it.
func TestLimitsThatTheGatewaySendsBindWhatIsReserved(t *testing.T) {
	t.Parallel()
	g, p := launchReserving(t, nil)
	key := g.budgeted(t, 1_000_000)
	for _, effort := range []string{"low", "medium", "high"} {
		attack(t, "exhaustion", "reasoning of effort "+effort+" is reserved", func(t *testing.T) {
			p.reset()
			r := g.as(t, key, "POST", "/v1/chat/completions", `{"model":"claude-sonnet-4-5","max_tokens":50,"reasoning_effort":"`+effort+`","messages":[{"role":"user","content":"hi"}]}`, "x-gateway-provider", "@messages")
			var sent struct {
				Most int64 `json:"max_tokens"`
			}
			if seen := p.seen(); len(seen) != 1 || json.Unmarshal(seen[0].body, &sent) != nil || sent.Most <= 50 {
				t.Fatalf("status %d, the provider got %d requests with the limit %d, want one of more than 50", r.status, len(seen), sent.Most)
			}
			if reserved, _ := g.reserved(t, r); reserved < sent.Most {
				t.Errorf("reserved %d tokens, the provider may write %d", reserved, sent.Most)
			}
		})
	}
}

// TestDecoysDoNotExceedABudget sends many requests at a time whose response is long.
func TestDecoysDoNotExceedABudget(t *testing.T) {
	t.Parallel()
	var served atomic.Int64
	g, _ := launchReserving(t, func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":4,"completion_tokens":4096,"total_tokens":4100}}`)
	})
	for _, name := range []string{"options.num_predict", "max_output_tokens", "generationConfig", "inferenceConfig"} {
		attack(t, "exhaustion", "20 requests with "+name+" keep to a budget that stops", func(t *testing.T) {
			key := g.budgeted(t, 10_000)
			served.Store(0)
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					g.as(t, key, "POST", "/v1/chat/completions", limitedAPIs[0].with(decoys[name], "hello"), "x-gateway-provider", "@chat")
				})
			}
			wg.Wait()
			if n := served.Load(); n < 1 || n > 2 {
				t.Errorf("%d requests of 4100 tokens were served by a budget of 10,000", n)
			}
		})
	}
}

// texts are about 12 KB of text with many tokens, as it is in JSON.
var texts = map[string]string{
	"Chinese":       strings.Repeat("春眠不觉晓处处闻啼鸟夜来风雨声花落知多少", 200),
	"rare Chinese":  strings.Repeat("㐀㐁㐂㐃㐄㐅㐆㐇㐈㐉㐊㐋", 300),
	"lines":         strings.Repeat(`one\ntwo\n`, 1200),
	"short lines":   strings.Repeat(`a\nB\n`, 1900),
	"base64":        base64.StdEncoding.EncodeToString(noise(9000)),
	"no spaces":     strings.Repeat("word,", 2400),
	"signs":         strings.Repeat("#$%&()*+-./:;<=>?@[]^_{|}~!", 400),
	"emoji":         strings.Repeat("🦩🪢🧿🫧", 700),
	"an address":    "https://example.com/" + strings.Repeat("a/B", 4000),
	"a data URL":    "data:image/png;base64," + base64.StdEncoding.EncodeToString(noise(9000)),
	"English words": strings.Repeat("The quick brown fox. ", 550),
}

// noise is random data, the same in each run.
func noise(n int) []byte {
	r := rand.NewChaCha8([32]byte{1})
	b := make([]byte, n)
	r.Read(b)
	return b
}

// tokenized returns the tokens of a text as OpenAI counts them. The text is short enough
// for all of it to be read.
func tokenized(t *testing.T, text string) int64 {
	t.Helper()
	var plain string
	if err := json.Unmarshal([]byte(`"`+text+`"`), &plain); err != nil || len(plain) > 16<<10 {
		t.Fatalf("a text of %d bytes: %v", len(plain), err)
	}
	return tokenizer.Estimate("openai", "gpt-4o", []byte(plain))
}

// TestTextIsReservedAndCountedAsText sends text that looks like files.
func TestTextIsReservedAndCountedAsText(t *testing.T) {
	t.Parallel()
	silent := respondWith("application/json", "", []byte(`{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`))
	g, _ := launchReserving(t, silent)
	key := g.budgeted(t, 100_000_000)
	apis := append([]limited{
		{"embeddings", "chat", "/v1/embeddings", `{"model":"m",MEMBERS"input":["TEXT"]}`, ``},
		{"moderations", "chat", "/v1/moderations", `{"model":"m",MEMBERS"input":"TEXT"}`, ``},
	}, limitedAPIs[:12]...)
	for _, a := range apis {
		for name, text := range texts {
			attack(t, "exhaustion", name+" is reserved and counted as text in "+a.name, func(t *testing.T) {
				want := tokenized(t, text)
				r := g.as(t, key, "POST", a.path, a.with(a.limit, text), "x-gateway-provider", "@"+a.provider)
				reserved, used := g.reserved(t, r)
				if a.name == "an unknown API" {
					reserved -= unknownOutput
				}
				if reserved*3 < want || r.status == http.StatusOK && used*3 < want {
					t.Errorf("status %d, reserved %d and used %d of %d tokens", r.status, reserved, used, want)
				}
			})
		}
	}
}

// TestTextInOtherPlacesIsReservedAndCounted puts text where files, names or data may be.
func TestTextInOtherPlacesIsReservedAndCounted(t *testing.T) {
	t.Parallel()
	silent := respondWith("application/json", "", []byte(`{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn"}`))
	g, _ := launchReserving(t, silent)
	key := g.budgeted(t, 100_000_000)
	text := texts["base64"]
	const ask = `"messages":[{"role":"user","content":"hi"}]`
	block := func(b string) string {
		return `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[` + b + `]}]}`
	}
	for _, c := range []struct{ name, provider, path, body string }{
		{"a document of plain text", "messages", "/v1/messages", block(`{"type":"document","source":{"type":"text","media_type":"text/plain","data":"TEXT"}}`)},
		{"a document of plain text, its type last", "messages", "/v1/messages", block(`{"type":"document","source":{"media_type":"text/plain","data":"TEXT","type":"text"}}`)},
		{"the result of a tool", "messages", "/v1/messages", block(`{"type":"tool_result","tool_use_id":"t","content":"TEXT"}`)},
		{"the argument of a tool, named as an image", "messages", "/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"image_url":"TEXT"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}]}`},
		{"the name of an argument", "messages", "/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"TEXT":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}]}`},
		{"identifiers in an argument", "messages", "/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"list":[` + strings.TrimSuffix(strings.Repeat(`{"id":"`+text[:60]+`"},`, 200), ",") + `]}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}]}`},
		{"the system prompt", "messages", "/v1/messages", `{"model":"m","max_tokens":9,"system":"TEXT",` + ask + `}`},
		{"the schema of a tool", "messages", "/v1/messages", `{"model":"m","max_tokens":9,"tools":[{"name":"f","input_schema":{"type":"object","properties":{"type":{"type":"string","enum":["TEXT"]}}}}],` + ask + `}`},
		{"the description of a tool in chat", "chat", "/v1/chat/completions", `{"model":"m","max_tokens":9,"tools":[{"type":"function","function":{"name":"f","description":"TEXT"}}],` + ask + `}`},
		{"the model of a schema", "chat", "/v1/chat/completions", `{"model":"m","max_tokens":9,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string","model":"TEXT"}}}}}],` + ask + `}`},
		{"a schema of the response", "chat", "/v1/chat/completions", `{"model":"m","max_tokens":9,"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object","properties":{"TEXT":{"type":"string"}}}}},` + ask + `}`},
		{"a call of a tool in chat", "chat", "/v1/chat/completions", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{\"data\":\"TEXT\"}"}}]},{"role":"tool","tool_call_id":"t","content":"x"}]}`},
		{"inline text of gemini", "gemini", "/v1beta/models/m:generateContent", `{"generationConfig":{"maxOutputTokens":9},"contents":[{"role":"user","parts":[{"inlineData":{"mimeType":"text/plain","data":"TEXT"}}]}]}`},
		{"the response of a function of gemini", "gemini", "/v1beta/models/m:generateContent", `{"generationConfig":{"maxOutputTokens":9},"contents":[{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"url":"TEXT"}}}]}]}`},
		{"a result of converse as JSON", "converse", "/model/m/converse", `{"inferenceConfig":{"maxTokens":9},"messages":[{"role":"user","content":[{"toolResult":{"toolUseId":"t","content":[{"json":{"data":"TEXT"}}]}}]}]}`},
		{"a document of Cohere", "cohere", "/v2/chat", `{"model":"m","max_tokens":9,"documents":[{"data":{"source":{"data":"TEXT"}}}],` + ask + `}`},
		{"numbers in an argument", "messages", "/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"list":[` + strings.TrimSuffix(strings.Repeat("7.25,", 2400), ",") + `]}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}]}`},
	} {
		attack(t, "exhaustion", c.name+" is reserved and counted as text", func(t *testing.T) {
			want := tokenized(t, text)
			r := g.as(t, key, "POST", c.path, strings.ReplaceAll(c.body, "TEXT", text), "x-gateway-provider", "@"+c.provider)
			if r.status == http.StatusBadRequest {
				t.Fatalf("the gateway refused the request: %s", r.body)
			}
			reserved, used := g.reserved(t, r)
			if reserved*3 < want || r.status == http.StatusOK && used*3 < want {
				t.Errorf("status %d, reserved %d and used %d of %d tokens", r.status, reserved, used, want)
			}
		})
	}
	attack(t, "exhaustion", "an image is not text", func(t *testing.T) {
		body := block(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + base64.StdEncoding.EncodeToString(noise(600_000)) + `"}}`)
		reserved, used := g.reserved(t, g.as(t, key, "POST", "/v1/messages", body, "x-gateway-provider", "@messages").ok(t))
		if reserved > 1200 || used > 1200 || used < 1000 {
			t.Errorf("an image of 800 KB reserved %d tokens and used %d, want about 1000", reserved, used)
		}
	})
}

// TestPassedTextIsCountedWhateverItsTypeSays sends prompts in bodies that the gateway does
// not read as JSON objects, which many providers do.
func TestPassedTextIsCountedWhateverItsTypeSays(t *testing.T) {
	t.Parallel()
	g, _ := launchReserving(t, respondWith("application/json", "", []byte(`{"ok":true}`)))
	key := g.budgeted(t, 100_000_000)
	text := texts["Chinese"]
	want := tokenized(t, text)
	object := `{"model":"m","prompt":"` + text + `"}`
	for _, c := range []struct {
		name, path, media, coding, body string
		tokens                          int64
	}{
		{"as plain text", passPath, "text/plain", "", object, want},
		{"as an unknown type", passPath, "application/x-prompt", "", object, want},
		{"as a form of a page", passPath, "application/x-www-form-urlencoded", "", object, want},
		{"as a list", passPath, "application/json", "", `[` + object + `]`, want},
		{"as JSON with a duplicate name", passPath, "application/json", "", `{"a":1,"a":2,"prompt":"` + text + `"}`, want},
		{"as JSON that does not end", passPath, "application/json", "", `{"prompt":"` + text, want},
		{"as lines of JSON", passPath, "application/x-ndjson", "", object + "\n" + object, 2 * want},
		{"as more than a megabyte", passPath, "application/json", "", `{"prompt":"` + strings.Repeat(text, 100) + `"}`, 100 * want},
		{"compressed", passPath, "application/json", "gzip", string(encoded("gzip", []byte(object))), want / 100},
		{"as an image", passPath, "image/png", "", object, want},
		{"as an image behind spaces", passPath, "application/octet-stream", "", strings.Repeat(" \n", 9000) + object, want},
		{"as an image to Ollama", "/api/chat", "image/png", "", object, want},
	} {
		attack(t, "exhaustion", "a prompt "+c.name+" is counted", func(t *testing.T) {
			header := []string{"x-gateway-provider", "@chat", "Content-Type", c.media}
			if strings.HasPrefix(c.path, "/api") {
				header[1] = "@ollama"
			}
			if c.coding != "" {
				header = append(header, "Content-Encoding", c.coding)
			}
			reserved, used := g.reserved(t, g.as(t, key, "POST", c.path, c.body, header...).ok(t))
			if (reserved-unknownOutput)*3 < c.tokens || used*3 < c.tokens {
				t.Errorf("reserved %d, with %d of output, and used %d of %d tokens", reserved, unknownOutput, used, c.tokens)
			}
		})
	}
	attack(t, "exhaustion", "a recording is not text", func(t *testing.T) {
		r := g.as(t, key, "POST", passPath, string(noise(300_000)), "x-gateway-provider", "@chat", "Content-Type", "audio/wav").ok(t)
		if reserved, used := g.reserved(t, r); reserved > unknownOutput+400 || used > 400 {
			t.Errorf("a recording of 300 KB reserved %d tokens and used %d", reserved, used)
		}
	})
}

// TestReservedIsAtLeastAThirdOfUsed sends random requests to a provider that counts the
// tokens of their text, and writes as much as the field of its API allows.
func TestReservedIsAtLeastAThirdOfUsed(t *testing.T) {
	t.Parallel()
	var most, input atomic.Int64
	g, _ := launchReserving(t, func(w http.ResponseWriter, r *http.Request) {
		in, out := input.Load(), most.Load()
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/messages"):
			fmt.Fprintf(w, `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":%d,"output_tokens":%d}}`, in, out)
		case strings.HasSuffix(r.URL.Path, ":generateContent"):
			fmt.Fprintf(w, `{"candidates":[{"content":{"role":"model","parts":[{"text":"hi"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":%d,"candidatesTokenCount":%d,"totalTokenCount":%d}}`, in, out, in+out)
		case strings.HasSuffix(r.URL.Path, "/responses"):
			fmt.Fprintf(w, `{"id":"r","object":"response","status":"completed","model":"m","output":[{"type":"message","id":"x","role":"assistant","status":"completed","content":[{"type":"output_text","text":"hi","annotations":[]}]}],"usage":{"input_tokens":%d,"output_tokens":%d,"total_tokens":%d}}`, in, out, in+out)
		default:
			fmt.Fprintf(w, `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, in, out, in+out)
		}
	})
	key := g.budgeted(t, 1_000_000_000)
	random := rand.New(rand.NewPCG(11, 12))
	var samples, traps []string
	for name := range texts {
		samples = append(samples, texts[name])
	}
	for name := range decoys {
		traps = append(traps, name)
	}
	for _, i := range []int{0, 3, 4, 5, 10, 11} {
		a := limitedAPIs[i]
		attack(t, "exhaustion", "random requests of "+a.name+" reserve a third of what they use", func(t *testing.T) {
			for range 20 {
				var members []string
				most.Store(unknownOutput)
				if a.limit != "" && (a.required() != "" || random.IntN(2) == 0) {
					n := 1 + random.IntN(50_000)
					most.Store(int64(n))
					members = append(members, strings.Replace(a.limit, "100", fmt.Sprint(n), 1))
				}
				for range random.IntN(3) {
					if name := traps[random.IntN(len(traps))]; !a.reads(name) && !strings.Contains(strings.Join(members, ","), decoys[name]) {
						members = append(members, decoys[name])
					}
				}
				var text strings.Builder
				total := int64(0)
				for range 1 + random.IntN(4) {
					s := samples[random.IntN(len(samples))]
					text.WriteString(s)
					total += tokenized(t, s)
				}
				input.Store(total)
				body := a.with(strings.Join(members, ","), text.String())
				r := g.as(t, key, "POST", a.path, body, "x-gateway-provider", "@"+a.provider)
				if r.status == http.StatusBadRequest {
					continue // two members with one name, or one that the API does not accept
				}
				if reserved, used := g.reserved(t, r.ok(t)); used != total+most.Load() || reserved*3 < used {
					t.Errorf("%.120s: reserved %d, used %d; want %d used and a third of it reserved", body, reserved, used, total+most.Load())
				}
			}
		})
	}
}
