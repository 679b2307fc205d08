package dataplane_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// The error that ends a broken stream is numbered like the events before it.
func TestTheErrorOfABrokenStreamOfResponsesHasTheNextNumber(t *testing.T) {
	t.Parallel()
	g, u := newScriptedPairs(t)
	const events = "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"r\",\"object\":\"response\",\"status\":\"in_progress\",\"model\":\"m\",\"output\":[]}}\n\n" +
		": a comment\n\n" +
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":1,\"item_id\":\"i\",\"output_index\":0,\"content_index\":0,\"delta\":\"a\"}\n\n"
	for target, first := range map[string]string{"@chat": events, "@messages": messageStart + messageDelta("a")} {
		t.Run(target, func(t *testing.T) {
			heads := begin(t, g.Request("POST", "/responses", `{"model":"m","input":"Hi","stream":true,"max_output_tokens":20}`, "x-gateway-provider", target))
			c := u.next()
			c.events()
			c.say(first)
			res := receive(t, heads, "the head")
			c.finish()
			body := readRest(t, res.Body)
			last := int64(-1)
			for line := range strings.Lines(body) {
				data, ok := strings.CutPrefix(line, "data: ")
				if !ok {
					continue
				}
				var e struct {
					Type   string
					Number int64 `json:"sequence_number"`
				}
				if err := json.Unmarshal([]byte(data), &e); err != nil || e.Number != last+1 {
					t.Errorf("%v: event %s after number %d: %s", err, e.Type, last, data)
				}
				last = e.Number
			}
			if last < 2 || !strings.Contains(body, `"type":"error"`) && !strings.Contains(body, `"type":"response.failed"`) {
				t.Errorf("the client has %s", body)
			}
		})
	}
}
