package dataplane_test

import (
	"fmt"
	"strings"
	"testing"
)

// openReasoning is the beginning of a stream of responses in which text begins before the
// reasoning has ended, as hosts stream that end all items with the response.
const openReasoning = `data: {"type":"response.created","response":{"id":"r","model":"m","status":"in_progress","output":[]}}` + "\n\n" +
	`data: {"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}}` + "\n\n" +
	`data: {"type":"response.reasoning_text.delta","item_id":"rs_1","output_index":0,"content_index":0,"delta":"first thought"}` + "\n\n" +
	`data: {"type":"response.output_item.added","output_index":1,"item":{"type":"message","id":"m_1","role":"assistant","content":[]}}` + "\n\n" +
	`data: {"type":"response.output_text.delta","item_id":"m_1","output_index":1,"content_index":0,"delta":"early words"}` + "\n\n"

// lateReasoning goes on with the reasoning, and ends.
const lateReasoning = `data: {"type":"response.reasoning_text.delta","item_id":"rs_1","output_index":0,"content_index":0,"delta":", late thought"}` + "\n\n" +
	`data: {"type":"response.output_text.delta","item_id":"m_1","output_index":1,"content_index":0,"delta":" and late words"}` + "\n\n" +
	`data: {"type":"response.completed","response":{"id":"r","model":"m","status":"completed","output":[{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"first thought, late thought"}],"encrypted_content":"signed"},{"type":"message","id":"m_1","role":"assistant","content":[{"type":"output_text","text":"early words and late words","annotations":[]}]}]}}` + "\n\n"

func TestTextLeavesWhileReasoningIsOpen(t *testing.T) {
	t.Parallel()
	send := newCallGateway(t)
	for _, client := range clientFormats {
		if client.name == "responses" {
			continue
		}
		h := client.readResponse(t, send(t, client, "responses", sseOf(openReasoning), true))
		if h.text != "early words" || h.end != "error" {
			t.Errorf("%s: a stream that breaks off gives %q and ends %s (%s), want the early words and an error", client.name, h.text, h.end, h.tail)
		}
		res := send(t, client, "responses", sseOf(openReasoning+lateReasoning), true)
		if h = client.readResponse(t, res); h.text != "early words and late words" || h.end != "done" {
			t.Errorf("%s: a complete stream gives %q and ends %s (%s), want all words and no thought", client.name, h.text, h.end, h.tail)
		}
		if client.name == "messages" && (!strings.Contains(string(res.Body), "late thought") || !strings.Contains(string(res.Body), "signed")) {
			t.Errorf("the rest of the thinking or its signature is missing:\n%s", res.Body)
		}
	}
}

// spokenResponse is a response of chat in audio.
const spokenResponse = `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"refusal":null,` +
	`"audio":{"id":"audio_1","data":"UklGRg==","expires_at":1767225600,"transcript":"spoken words"}},"finish_reason":"stop"}]}`

const spokenStream = `data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant","audio":{"id":"audio_1","transcript":"spoken "}},"finish_reason":null}]}` + "\n\n" +
	`data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"audio":{"data":"UklGRg==","transcript":"words"}},"finish_reason":null}]}` + "\n\n" +
	`data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"audio":{"expires_at":1767225600}},"finish_reason":"stop"}]}` + "\n\n" + done

func TestSpokenResponsesReachEveryClient(t *testing.T) {
	t.Parallel()
	send := newCallGateway(t)
	for _, client := range clientFormats {
		for stream, response := range map[bool]string{false: rawHead("application/json") + spokenResponse, true: sseOf(spokenStream)} {
			res := send(t, client, "chat", response, stream)
			switch h := client.readResponse(t, res); client.name {
			case "chat", "gemini":
				if !strings.Contains(string(res.Body), "UklGRg==") {
					t.Errorf("%s, stream %t: no audio in %s", client.name, stream, res.Body)
				}
			default:
				if h.text != "spoken words" {
					t.Errorf("%s, stream %t: %q, want the transcript: %s", client.name, stream, h.text, res.Body)
				}
				if params := res.Header.Get("x-gateway-params"); !stream && !strings.Contains(params, `response.audio;adapted="its transcript"`) {
					t.Errorf("%s: x-gateway-params is %q, want the audio in it", client.name, params)
				}
			}
		}
	}
}

func TestSourcesReachClientsOfConverse(t *testing.T) {
	t.Parallel()
	send := newCallGateway(t)
	converse := clientFormats[4]
	const cited = `"message":{"role":"assistant","content":"words","annotations":[{"type":"url_citation","url_citation":{"url":"https://a.example/x","title":"A","start_index":0,"end_index":5}}]}`
	res := send(t, converse, "chat", rawHead("application/json")+`{"id":"c","model":"m","choices":[{"index":0,`+cited+`,"finish_reason":"stop"}]}`, false)
	if h := converse.readResponse(t, res); h.text != "words" || !strings.Contains(string(res.Body), `"location":{"web":{"url":"https://a.example/x"}}`) {
		t.Errorf("text %q; want the text and its source in %s", h.text, res.Body)
	}
	chunk := strings.Replace(cited, "message", "delta", 1)
	res = send(t, converse, "chat", sseOf(fmt.Sprintf("data: {\"id\":\"c\",\"model\":\"m\",\"choices\":[{\"index\":0,%s,\"finish_reason\":null}]}\n\n", chunk)+
		`data: {"id":"c","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n"+done), true)
	if h := converse.readResponse(t, res); h.text != "words" || !strings.Contains(string(res.Body), `"delta":{"citation":{"title":"A","location":{"web":{"url":"https://a.example/x"}}}}`) {
		t.Errorf("text %q; want the text and its source in the stream: %q", h.text, res.Body)
	}
}

func TestSearchesForToolsByTheProviderBecomeText(t *testing.T) {
	t.Parallel()
	send := newRequestRecorder(t)
	const body = `{"model":%q,"stream":%t,"input":[{"role":"user","content":"hello"},` +
		`{"type":"tool_search_call","call_id":"call_1","execution":"server","arguments":{"query":"weather"}},` +
		`{"type":"tool_search_output","call_id":"call_1","execution":"server","tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{}}}]},{"role":"user","content":"go on"}]}`
	for _, target := range []string{"chat", "messages", "gemini", "converse", "cohere", "ollama", "oracle"} {
		res, sent, _ := send(clientFormats[2], body, target, "m")
		if !strings.Contains(sent, "[tool_search_call: ") || !strings.Contains(sent, "weather") || strings.Contains(sent, `"tool_search"`) || strings.Contains(sent, "call_1") {
			t.Errorf("%s: sent %s, want the search as text: %s", target, sent, res.Body)
		}
	}
}

func TestChangesAreAnnouncedInTheClientsWords(t *testing.T) {
	t.Parallel()
	send := newRequestRecorder(t)
	for _, tt := range []struct {
		client             clientFormat
		body, target, want string
	}{
		{clientFormats[2], `{"model":%q,"stream":%t,"input":"hello","include":["message.output_text.logprobs"]}`, "messages", "include"},
		{clientFormats[2], `{"model":%q,"stream":%t,"input":"hello","top_logprobs":2}`, "messages", "top_logprobs"},
		{clientFormats[3], `{"contents":[{"role":"user","parts":[{"text":"hello"}]}],"generationConfig":{"stopSequences":["x"]}}`, "responses", "generationConfig.stopSequences"},
		{clientFormats[3], `{"contents":[{"role":"user","parts":[{"text":"hello"}]}],"generationConfig":{"seed":7}}`, "chat", "generationConfig.seed"},
	} {
		_, _, e := send(tt.client, tt.body, tt.target, "m")
		if params := fmt.Sprint(e["params"]); !strings.Contains(params, tt.want) {
			t.Errorf("%s to %s: params %s, want %s", tt.client.name, tt.target, params, tt.want)
		}
	}
}
