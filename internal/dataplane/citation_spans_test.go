package dataplane_test

import (
	"fmt"
	"strings"
	"testing"
)

// citedStreams are streams of the text "Voilà: 21 °C", in which the last five
// characters are cited.
var citedStreams = map[string]string{
	"chat": `data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"Voilà: "},"finish_reason":null}]}

data: {"id":"c","choices":[{"index":0,"delta":{"content":"21 °C"},"finish_reason":null}]}

data: {"id":"c","choices":[{"index":0,"delta":{"annotations":[{"type":"url_citation","url_citation":{"url":"https://example.com","title":"t","start_index":7,"end_index":12}}]},"finish_reason":null}]}

data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: [DONE]

`,
	// A recorded stream has the citations before the text that they support.
	"messages": `event: message_start
data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"c","content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Voilà: "}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"citations":[],"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{"type":"web_search_result_location","cited_text":"x","url":"https://example.com","title":"t","encrypted_index":"e"}}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"21 "}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"°C"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}

event: message_stop
data: {"type":"message_stop"}

`,
	"responses": `event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"r","object":"response","status":"in_progress","model":"m","output":[]}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"i","type":"message","status":"in_progress","role":"assistant","content":[]}}

event: response.content_part.added
data: {"type":"response.content_part.added","sequence_number":2,"item_id":"i","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":3,"item_id":"i","output_index":0,"content_index":0,"delta":"Voilà: "}

event: response.output_text.done
data: {"type":"response.output_text.done","sequence_number":4,"item_id":"i","output_index":0,"content_index":0,"text":"Voilà: "}

event: response.content_part.done
data: {"type":"response.content_part.done","sequence_number":5,"item_id":"i","output_index":0,"content_index":0,"part":{"type":"output_text","text":"Voilà: ","annotations":[]}}

event: response.content_part.added
data: {"type":"response.content_part.added","sequence_number":6,"item_id":"i","output_index":0,"content_index":1,"part":{"type":"output_text","text":"","annotations":[]}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":7,"item_id":"i","output_index":0,"content_index":1,"delta":"21 °C"}

event: response.output_text.annotation.added
data: {"type":"response.output_text.annotation.added","sequence_number":8,"item_id":"i","output_index":0,"content_index":1,"annotation_index":0,"annotation":{"type":"url_citation","start_index":0,"end_index":5,"url":"https://example.com","title":"t"}}

event: response.completed
data: {"type":"response.completed","sequence_number":9,"response":{"id":"r","object":"response","status":"completed","model":"m","output":[{"id":"i","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Voilà: ","annotations":[]},{"type":"output_text","text":"21 °C","annotations":[{"type":"url_citation","start_index":0,"end_index":5,"url":"https://example.com","title":"t"}]}]}],"usage":{"input_tokens":1,"output_tokens":5,"total_tokens":6}}}

`,
	// Offsets of segments are bytes of UTF-8.
	// https://ai.google.dev/api/generate-content#Segment
	"gemini": `data: {"candidates":[{"content":{"parts":[{"text":"Voilà: "}],"role":"model"},"index":0}],"modelVersion":"m"}

data: {"candidates":[{"content":{"parts":[{"text":"21 °C"}],"role":"model"},"finishReason":"STOP","index":0,"groundingMetadata":{"groundingChunks":[{"web":{"uri":"https://example.com","title":"t"}}],"groundingSupports":[{"segment":{"startIndex":8,"endIndex":14,"text":"21 °C"},"groundingChunkIndices":[0]}]}}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":5,"totalTokenCount":6},"modelVersion":"m"}

`,
}

// Clients underline what a citation supports: its span is in characters of the
// message in chat, and of the part in responses.
func TestStreamedCitationsKeepTheirSpan(t *testing.T) {
	t.Parallel()
	send := newCallGateway(t)
	for target, stream := range citedStreams {
		for _, client := range []clientFormat{clientFormats[0], clientFormats[2]} {
			if client.name == target {
				continue
			}
			t.Run(target+" to "+client.name, func(t *testing.T) {
				res := send(t, client, target, sseOf(stream), true)
				var spans []string
				var text strings.Builder
				part := 0
				for _, e := range sseData(res.Body) {
					for _, path := range [...]struct{ text, cite string }{{"choices.0.delta.content", "choices.0.delta.annotations.0.url_citation"}, {"delta", "annotation"}} {
						if s, ok := at(e, path.text).(string); ok {
							text.WriteString(s)
						}
						if c, ok := at(e, path.cite).(map[string]any); ok {
							spans = append(spans, fmt.Sprint(c["start_index"], "-", c["end_index"], " ", c["url"]))
						}
					}
					if at(e, "type") == "response.content_part.added" && text.Len() > 0 {
						part = len([]rune(text.String()))
					}
				}
				want := fmt.Sprint(7-part, "-", 12-part, " https://example.com")
				if text.String() != "Voilà: 21 °C" || len(spans) != 1 || spans[0] != want {
					t.Errorf("text %q with citations %q, want %q:\n%s", text.String(), spans, want, res.Body)
				}
			})
		}
	}
}
