package replay

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// readings read the recorded responses of the protocols, whole and streamed,
// without the gateway's code.
var readings = map[string]func(documents []string) response{
	"messages":                readMessages,
	"responses":               readResponses,
	"generate-content":        readGemini,
	"stream-generate-content": readGemini,
	"converse":                readConverse,
	"converse-stream":         readConverse,
	"chat-v2":                 readCohere,
	"chat":                    readOllama,
}

// parted gathers the blocks of a stream that numbers them.
type parted struct {
	kinds map[int64]string // by number: text, thinking, call
	text  map[int64]string
	calls map[int64]toolCall
}

func newParted() *parted {
	return &parted{map[int64]string{}, map[int64]string{}, map[int64]toolCall{}}
}

func (p *parted) add(n int64, kind, text string) {
	if p.kinds[n] == "" {
		p.kinds[n] = kind
	}
	p.text[n] += text
}

func (p *parted) into(a *response) {
	var order []int64
	for n := range p.kinds {
		order = append(order, n)
	}
	slices.Sort(order)
	for _, n := range order {
		switch p.kinds[n] {
		case "text":
			a.Text += p.text[n]
		case "thinking":
			a.Thinking += p.text[n]
		case "call":
			c := p.calls[n]
			c.Arguments = arguments(p.text[n])
			a.Calls = append(a.Calls, c)
		}
	}
}

func jsonText(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// messages reads a response of the messages protocol.
type messages struct {
	response
	*parted
	said    string
	counted counters
}

// https://docs.anthropic.com/en/api/messages
func readMessages(documents []string) response {
	m := messages{parted: newParted(), counted: counters{}}
	for _, d := range documents {
		v := parse(d)
		if text(v, "type") == "message_stop" { // what follows in a recording are further answers
			break
		}
		m.document(v)
	}
	m.into(&m.response)
	m.finish(m.said, map[string]string{"max_tokens": "length", "model_context_window_exceeded": "length", "refusal": "content_filter"})
	if n := m.counted; len(n) > 0 {
		n.compacted()
		m.Usage = usage{Prompt: n["input_tokens"] + n["cache_read_input_tokens"] + n["cache_creation_input_tokens"],
			Completion: n["output_tokens"], Cached: n["cache_read_input_tokens"],
			Reasoning: n["output_tokens_details.thinking_tokens"]}.sum()
	}
	return m.response
}

func (m *messages) document(v any) {
	switch text(v, "type") {
	case "message":
		for i, b := range list(v, "content") {
			m.block(int64(i), b)
		}
		m.said = text(v, "stop_reason")
		m.counted.take(object(v, "usage"))
	case "message_start":
		m.counted.take(object(v, "message.usage"))
	case "content_block_start":
		m.block(number64(v, "index"), object(v, "content_block"))
	case "content_block_delta":
		m.add(number64(v, "index"), "", text(v, "delta.text")+text(v, "delta.thinking")+text(v, "delta.partial_json"))
	case "message_delta":
		m.said = text(v, "delta.stop_reason")
		m.counted.take(object(v, "usage"))
	case "error":
		m.Failed = text(v, "error.message")
	}
}

func (m *messages) block(i int64, b any) {
	switch text(b, "type") {
	case "text":
		m.add(i, "text", text(b, "text"))
	case "thinking":
		m.add(i, "thinking", text(b, "thinking"))
	case "tool_use":
		input := jsonText(at(b, "input"))
		if input == "{}" || input == "null" {
			input = ""
		}
		m.add(i, "call", input)
		m.parted.calls[i] = toolCall{ID: text(b, "id"), Name: text(b, "name")}
	}
}

// counters hold the largest of each counter, and the sums of those of a list
// below "sum.".
type counters map[string]int64

func (n counters) take(u map[string]any) {
	for name, v := range u {
		switch v := v.(type) {
		case float64:
			n[name] = max(n[name], int64(v))
		case map[string]any:
			for k, v := range v {
				if f, ok := v.(float64); ok {
					n[name+"."+k] = max(n[name+"."+k], int64(f))
				}
			}
		case []any:
			for _, step := range v {
				step, _ := step.(map[string]any)
				n["compacted"] += map[string]int64{"compaction": 1}[text(step, "type")]
				for k, v := range step {
					if f, ok := v.(float64); ok {
						n["sum."+k] += int64(f)
					}
				}
			}
		}
	}
}

// compacted takes the sums of the steps where one of them made the conversation
// shorter, which the counters leave out.
// https://docs.anthropic.com/en/docs/build-with-claude/compaction
func (n counters) compacted() {
	if n["compacted"] == 0 {
		return
	}
	for _, name := range []string{"input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"} {
		n[name] = n["sum."+name]
	}
}

// responses reads a response of the responses protocol.
type responses struct {
	response
	final    map[string]any
	items    map[int64]any
	streamed map[string]string // text by item, as it came in pieces
}

// https://platform.openai.com/docs/api-reference/responses
func readResponses(documents []string) response {
	r := responses{items: map[int64]any{}, streamed: map[string]string{}}
	for _, d := range documents {
		r.document(parse(d))
	}
	r.output()
	if text(r.final, "status") == "failed" {
		r.Failed = text(r.final, "error.message")
	}
	said := text(r.final, "incomplete_details.reason")
	if text(r.final, "status") == "incomplete" && said == "" {
		said = "max_output_tokens"
	}
	r.finish(said, map[string]string{"max_output_tokens": "length", "content_filter": "content_filter"})
	if u := object(r.final, "usage"); u != nil {
		r.Usage = usage{Prompt: number64(u, "input_tokens"), Completion: number64(u, "output_tokens"),
			Cached: number64(u, "input_tokens_details.cached_tokens"), Reasoning: number64(u, "output_tokens_details.reasoning_tokens")}.sum()
	}
	return r.response
}

func (r *responses) document(v map[string]any) {
	switch kind := text(v, "type"); {
	case text(v, "object") == "response":
		r.final = v
	case kind == "response.completed", kind == "response.incomplete", kind == "response.failed":
		r.final = object(v, "response")
	case kind == "response.output_item.done":
		r.items[number64(v, "output_index")] = object(v, "item")
	case kind == "response.output_text.delta":
		r.streamed[text(v, "item_id")] += text(v, "delta")
	case kind == "error":
		r.Failed = text(v, "message") + text(v, "error.message")
	}
}

// output takes in the items, which some hosts leave to the events.
func (r *responses) output() {
	output := list(r.final, "output")
	if len(output) == 0 {
		for _, i := range slices.Sorted(maps.Keys(r.items)) {
			output = append(output, r.items[i])
		}
	}
	for _, item := range output {
		if s, ok := r.streamed[text(item, "id")]; ok { // some recordings are shortened
			r.Text += s
			continue
		}
		r.item(item)
	}
}

// item takes in an item of the output.
func (a *response) item(item any) {
	switch text(item, "type") {
	case "message":
		for _, part := range list(item, "content") {
			a.Refusal += text(part, "refusal")
			if text(part, "type") == "output_text" {
				a.Text += text(part, "text")
			}
		}
	case "reasoning":
		var thoughts []string
		for _, part := range slices.Concat(list(item, "summary"), list(item, "content")) {
			thoughts = append(thoughts, text(part, "text"))
		}
		a.Thinking += strings.Join(thoughts, "\n\n")
	case "function_call":
		a.Calls = append(a.Calls, toolCall{text(item, "call_id"), text(item, "name"), arguments(text(item, "arguments"))})
	case "custom_tool_call":
		a.Calls = append(a.Calls, toolCall{text(item, "call_id"), text(item, "name"), arguments(text(item, "input"))})
	}
}

// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
func readConverse(documents []string) (a response) {
	p := newParted()
	var said string
	var counted map[string]any
	for _, d := range documents {
		v := parse(d)
		for i, b := range list(v, "output.message.content") {
			p.converse(int64(i), b)
		}
		i := number64(v, "contentBlockIndex")
		p.converse(i, object(v, "start"))
		p.converse(i, object(v, "delta"))
		if reason := text(v, "stopReason"); reason != "" {
			said = reason
		}
		if u := object(v, "usage"); u != nil {
			counted = u
		}
	}
	p.into(&a)
	a.finish(said, map[string]string{"max_tokens": "length", "model_context_window_exceeded": "length",
		"content_filtered": "content_filter", "guardrail_intervened": "content_filter"})
	if counted != nil {
		cached := number64(counted, "cacheReadInputTokens")
		a.Usage = usage{Prompt: number64(counted, "inputTokens") + cached + number64(counted, "cacheWriteInputTokens"),
			Completion: number64(counted, "outputTokens"), Cached: cached}.sum()
	}
	return a
}

// converse takes in a block or a part of one.
func (p *parted) converse(i int64, b any) {
	if s, ok := at(b, "text").(string); ok {
		p.add(i, "text", s)
	}
	if r := object(b, "reasoningContent"); r != nil {
		p.add(i, "thinking", text(r, "text")+text(r, "reasoningText.text"))
	}
	call := object(b, "toolUse")
	if text(call, "type") == "server_tool_use" { // the provider runs it
		p.kinds[i] = "server"
	}
	switch input := at(call, "input").(type) {
	case string: // a delta
		p.add(i, "call", input)
	case nil:
		if call != nil {
			p.add(i, "call", "")
		}
	default:
		p.add(i, "call", jsonText(input))
	}
	if text(call, "toolUseId") != "" {
		p.calls[i] = toolCall{ID: text(call, "toolUseId"), Name: text(call, "name")}
	}
}

// frames are the JSON texts of a response however it is framed: a body, events,
// lines, or the messages of a binary stream.
func (x *exchange) frames() []string {
	switch {
	case strings.HasPrefix(x.Response.Headers["content-type"], "application/x-ndjson"):
		return strings.Split(strings.TrimSpace(x.Response.Body), "\n")
	case x.Response.Base64 == nil:
		return x.documents()
	}
	var all []string
	for b := x.Response.Base64; len(b) > 0; {
		// https://smithy.io/2.0/aws/amazon-eventstream.html
		whole, headers := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
		if int(whole) > len(b) {
			panic(fmt.Sprintf("%s: a message of %d bytes in %d", x.name, whole, len(b)))
		}
		all = append(all, string(b[12+headers:whole-4]))
		b = b[whole:]
	}
	return all
}
