package conformance

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"net/http"
	"strings"
)

const messagesBody = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}]}`

// providerFormat is a protocol that providers speak, with a response in it: it thinks
// "because", says "Hello", calls look with {"q":1} if it calls at all, and
// counts 7 tokens read and 2 written.
type providerFormat struct {
	name     string
	provider string // a row that speaks it
	model    string
	complete func(called bool) string
	stream   string
	made     string // when it was made, in Unix seconds, if the provider says so
	dated    bool   // its streams say so too
}

var providerFormats = []providerFormat{
	{"messages", "anthropic", "claude-sonnet-4-5", messagesResponse, messagesStream, "", false},
	{"messages at Vertex", "vertex-ai", "claude-sonnet-4-5", messagesResponse, messagesStream, "", false},
	{"gemini", "google", "gemini-2.5-flash", geminiResponse, geminiStream, geminiMade, true},
	{"gemini at Vertex", "vertex-ai", "gemini-2.5-flash", geminiResponse, geminiStream, geminiMade, true},
	{"converse", "bedrock", "amazon.nova-lite-v1:0", converseResponse, converseStream, "", false},
	{"cohere", "cohere", "command-a-03-2025", cohereResponse, cohereStream, "", false},
	{"oracle", "oracle", "meta.llama-3.3-70b-instruct", oracleResponse, oracleStream, oracleMade, false},
}

// When two of them say that their responses were made.
const (
	geminiMade = "1763701200"
	oracleMade = "1763697600"
)

// to are the headers of a request for p in this protocol.
func (x providerFormat) to(p *provider, more ...string) []string {
	header := append([]string{"x-gateway-api-key", bootstrapKey, "x-gateway-provider", x.provider, "x-gateway-custom-host", p.root,
		"x-gateway-cloud-b-project-id", "p-1", "x-gateway-cloud-b-region", "europe-west4", "x-gateway-cloud-a-region", "eu-west-1"}, more...)
	if x.provider == "oracle" { // behind a custom host that signs
		return header
	}
	return append(header, "Authorization", "Bearer "+credential)
}

// speaks answers in the protocol that the path of the request belongs to.
func speaks(called bool) behaviour {
	return func(w http.ResponseWriter, r *http.Request, in received) {
		path, _, _ := strings.Cut(in.uri, "?")
		var asked struct {
			Stream      bool
			ChatRequest struct{ IsStream bool }
		}
		json.Unmarshal(in.body, &asked)
		streamed := asked.Stream || asked.ChatRequest.IsStream
		x := providerFormat{complete: func(bool) string { return cannedBodies["/chat/completions"] }, stream: chatEvents + done}
		kind := "text/event-stream"
		switch {
		case strings.Contains(path, "/models/") && strings.Contains(path, "enerateContent"):
			x, streamed = providerFormats[2], strings.Contains(path, ":stream")
		case strings.HasSuffix(path, "/converse"), strings.HasSuffix(path, "/converse-stream"):
			x, streamed, kind = providerFormats[4], strings.HasSuffix(path, "-stream"), "application/vnd.amazon.eventstream"
		case strings.HasSuffix(path, "/messages"), strings.HasSuffix(path, "awPredict"):
			x = providerFormats[0]
		case strings.HasSuffix(path, "/v2/chat"):
			x = providerFormats[5]
		case strings.HasSuffix(path, "/actions/chat"):
			x = providerFormats[6]
		case strings.HasSuffix(path, "/chat_stream"):
			streamed = true
		}
		if streamed {
			says(200, kind, x.stream)(w, r, in)
			return
		}
		says(200, "application/json", x.complete(called))(w, r, in)
	}
}

// when returns s if called is true.
func when(called bool, s, otherwise string) string {
	if called {
		return s
	}
	return otherwise
}

func messagesResponse(called bool) string {
	return `{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[{"type":"thinking","thinking":"because","signature":"c2ln"},{"type":"text","text":"Hello"}` +
		when(called, `,{"type":"tool_use","id":"call_1","name":"look","input":{"q":1}}`, "") +
		`],"stop_reason":"` + when(called, "tool_use", "end_turn") + `","stop_sequence":null,"usage":{"input_tokens":7,"output_tokens":2}}`
}

const messagesStream = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-x\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":7,\"output_tokens\":1}}}\n\n" +
	"event: ping\ndata: {\"type\":\"ping\"}\n\n" +
	"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n" +
	"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"because\"}}\n\n" +
	"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
	"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
	"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello\"}}\n\n" +
	"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":1}\n\n" +
	"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":\"tool_use\",\"id\":\"call_1\",\"name\":\"look\",\"input\":{}}}\n\n" +
	"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"q\\\":1}\"}}\n\n" +
	"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":2}\n\n" +
	"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":2}}\n\n" +
	"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"

func geminiResponse(called bool) string {
	return `{"candidates":[{"index":0,"finishReason":"STOP","content":{"role":"model","parts":[{"text":"because","thought":true},{"text":"Hello"}` +
		when(called, `,{"functionCall":{"id":"call_1","name":"look","args":{"q":1}}}`, "") +
		`]}}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":2,"totalTokenCount":9},"createTime":"2025-11-21T05:00:00.123456Z","modelVersion":"gemini-x","responseId":"r-1"}`
}

const geminiStream = "data: {\"candidates\":[{\"index\":0,\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"because\",\"thought\":true}]}}],\"createTime\":\"2025-11-21T05:00:00.123456Z\",\"modelVersion\":\"gemini-x\",\"responseId\":\"r-1\"}\r\n\r\n" +
	"data: {\"candidates\":[{\"index\":0,\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"Hello\"}]}}]}\r\n\r\n" +
	"data: {\"candidates\":[{\"index\":0,\"finishReason\":\"STOP\",\"content\":{\"role\":\"model\",\"parts\":[{\"functionCall\":{\"id\":\"call_1\",\"name\":\"look\",\"args\":{\"q\":1}}}]}}],\"usageMetadata\":{\"promptTokenCount\":7,\"candidatesTokenCount\":2,\"totalTokenCount\":9}}\r\n\r\n"

func converseResponse(called bool) string {
	return `{"output":{"message":{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"because"}}},{"text":"Hello"}` +
		when(called, `,{"toolUse":{"toolUseId":"call_1","name":"look","input":{"q":1}}}`, "") +
		`]}},"stopReason":"` + when(called, "tool_use", "end_turn") + `","usage":{"inputTokens":7,"outputTokens":2,"totalTokens":9},"metrics":{"latencyMs":1}}`
}

var converseStream = message("messageStart", `{"role":"assistant"}`) +
	message("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"because"}}}`) +
	message("contentBlockStop", `{"contentBlockIndex":0}`) +
	message("contentBlockDelta", `{"contentBlockIndex":1,"delta":{"text":"Hello"}}`) +
	message("contentBlockStop", `{"contentBlockIndex":1}`) +
	message("contentBlockStart", `{"contentBlockIndex":2,"start":{"toolUse":{"toolUseId":"call_1","name":"look"}}}`) +
	message("contentBlockDelta", `{"contentBlockIndex":2,"delta":{"toolUse":{"input":"{\"q\":1}"}}}`) +
	message("contentBlockStop", `{"contentBlockIndex":2}`) +
	message("messageStop", `{"stopReason":"tool_use"}`) +
	message("metadata", `{"usage":{"inputTokens":7,"outputTokens":2,"totalTokens":9},"metrics":{"latencyMs":1}}`)

// message is one of a binary event stream.
// https://smithy.io/2.0/aws/amazon-eventstream.html
func message(kind, payload string) string {
	var headers []byte
	for _, h := range [][2]string{{":event-type", kind}, {":content-type", "application/json"}, {":message-type", "event"}} {
		headers = append(append(headers, byte(len(h[0]))), h[0]...)
		headers = append(binary.BigEndian.AppendUint16(append(headers, 7), uint16(len(h[1]))), h[1]...)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(headers)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(headers)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, headers...), payload...)
	return string(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

func cohereResponse(called bool) string {
	return `{"id":"c-1","finish_reason":"` + when(called, "TOOL_CALL", "COMPLETE") + `","message":{"role":"assistant","content":[{"type":"thinking","thinking":"because"},{"type":"text","text":"Hello"}]` +
		when(called, `,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"look","arguments":"{\"q\":1}"}}]`, "") +
		`},"usage":{"billed_units":{"input_tokens":7,"output_tokens":2},"tokens":{"input_tokens":7,"output_tokens":2}}}`
}

const cohereStream = "event: message-start\ndata: {\"id\":\"c-1\",\"type\":\"message-start\",\"delta\":{\"message\":{\"role\":\"assistant\",\"content\":[],\"tool_plan\":\"\",\"tool_calls\":[],\"citations\":[]}}}\n\n" +
	"event: content-start\ndata: {\"type\":\"content-start\",\"index\":0,\"delta\":{\"message\":{\"content\":{\"type\":\"thinking\",\"thinking\":\"\"}}}}\n\n" +
	"event: content-delta\ndata: {\"type\":\"content-delta\",\"index\":0,\"delta\":{\"message\":{\"content\":{\"thinking\":\"because\"}}}}\n\n" +
	"event: content-end\ndata: {\"type\":\"content-end\",\"index\":0}\n\n" +
	"event: content-start\ndata: {\"type\":\"content-start\",\"index\":1,\"delta\":{\"message\":{\"content\":{\"type\":\"text\",\"text\":\"\"}}}}\n\n" +
	"event: content-delta\ndata: {\"type\":\"content-delta\",\"index\":1,\"delta\":{\"message\":{\"content\":{\"text\":\"Hello\"}}}}\n\n" +
	"event: content-end\ndata: {\"type\":\"content-end\",\"index\":1}\n\n" +
	"event: tool-call-start\ndata: {\"type\":\"tool-call-start\",\"index\":0,\"delta\":{\"message\":{\"tool_calls\":{\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"look\",\"arguments\":\"\"}}}}}\n\n" +
	"event: tool-call-delta\ndata: {\"type\":\"tool-call-delta\",\"index\":0,\"delta\":{\"message\":{\"tool_calls\":{\"function\":{\"arguments\":\"{\\\"q\\\":1}\"}}}}}\n\n" +
	"event: tool-call-end\ndata: {\"type\":\"tool-call-end\",\"index\":0}\n\n" +
	"event: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"TOOL_CALL\",\"usage\":{\"billed_units\":{\"input_tokens\":7,\"output_tokens\":2},\"tokens\":{\"input_tokens\":7,\"output_tokens\":2}}}}\n\n"

func oracleResponse(called bool) string {
	return `{"modelId":"meta.x","modelVersion":"1","chatResponse":{"apiFormat":"GENERIC","timeCreated":"2025-11-21T04:00:00.000Z","choices":[{"index":0,"finishReason":"` + when(called, "tool_calls", "stop") +
		`","message":{"role":"ASSISTANT","reasoningContent":"because","content":[{"type":"TEXT","text":"Hello"}]` +
		when(called, `,"toolCalls":[{"id":"call_1","type":"FUNCTION","name":"look","arguments":"{\"q\":1}"}]`, "") +
		`}}],"usage":{"promptTokens":7,"completionTokens":2,"totalTokens":9}}}`
}

const oracleStream = "data: {\"index\":0,\"message\":{\"role\":\"ASSISTANT\",\"reasoningContent\":\"because\"}}\n\n" +
	"data: {\"index\":0,\"message\":{\"role\":\"ASSISTANT\",\"content\":[{\"type\":\"TEXT\",\"text\":\"Hello\"}]}}\n\n" +
	"data: {\"index\":0,\"message\":{\"role\":\"ASSISTANT\",\"toolCalls\":[{\"id\":\"call_1\",\"type\":\"FUNCTION\",\"name\":\"look\",\"arguments\":\"{\\\"q\\\":1}\"}]}}\n\n" +
	"data: {\"finishReason\":\"tool_calls\"}\n\n" +
	"data: {\"usage\":{\"promptTokens\":7,\"completionTokens\":2,\"totalTokens\":9}}\n\n"

// pieces joins what the deltas of a stream of the chat protocol say.
type pieces struct {
	text, thinking, name, arguments, finish string
	usage                                   string
	blocks                                  int
}

func gathered(stream []byte) (p pieces) {
	for line := range bytes.Lines(stream) {
		data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
		var v any
		if !ok || json.Unmarshal(data, &v) != nil {
			continue
		}
		delta := at(v, "choices", 0, "delta")
		add := func(s *string, from any, path ...any) {
			if text, ok := at(from, path...).(string); ok {
				*s += text
			}
		}
		add(&p.text, delta, "content")
		add(&p.thinking, delta, "reasoning_content")
		add(&p.name, delta, "tool_calls", 0, "function", "name")
		add(&p.arguments, delta, "tool_calls", 0, "function", "arguments")
		add(&p.finish, v, "choices", 0, "finish_reason")
		if at(delta, "content_blocks") != nil {
			p.blocks++
		}
		if u := at(v, "usage"); u != nil {
			b, _ := json.Marshal([]any{at(u, "prompt_tokens"), at(u, "completion_tokens"), at(u, "total_tokens")})
			p.usage = string(b)
		}
	}
	return p
}
