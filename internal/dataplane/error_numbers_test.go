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
			c.send(first)
			res := receive(t, heads, "the head")
			c.finish()
			body := readRest(t, res.Body)
			if last := checkNumbers(t, body); last < 2 || !strings.Contains(body, `"type":"error"`) && !strings.Contains(body, `"type":"response.failed"`) {
				t.Errorf("the client has %s", body)
			}
		})
	}
}

// checkNumbers checks that the events of a stream are numbered from 0, and returns
// the last number.
func checkNumbers(t *testing.T, body string) int64 {
	t.Helper()
	last := int64(-1)
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type   string
			Number *int64 `json:"sequence_number"`
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil || e.Number == nil || *e.Number != last+1 {
			t.Fatalf("%v: event %s after number %d: %s", err, e.Type, last, data)
		}
		last = *e.Number
	}
	return last
}

// So is a denial, although the provider's stream went on behind what was held back.
func TestTheDenialOfAStreamOfResponsesHasTheNextNumber(t *testing.T) {
	t.Parallel()
	g, u := newScriptedPairs(t)
	delta := func(number, text string) string {
		return "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":" + number + ",\"item_id\":\"i\",\"output_index\":0,\"content_index\":0,\"delta\":\"" + text + "\"}\n\n"
	}
	const created = "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"r\",\"object\":\"response\",\"status\":\"in_progress\",\"model\":\"m\",\"output\":[]}}\n\n"
	for target, provider := range map[string]struct{ first, then string }{
		"@chat":     {created + delta("1", "good words "), delta("2", "and so on ") + delta("3", "PLANTED") + delta("4", "-") + delta("5", "4711-SECRET ")},
		"@messages": {messageStart + messageDelta("good words "), messageDelta("and so on ") + messageDelta("PLANTED") + messageDelta("-") + messageDelta("4711-SECRET ") + messageEnd},
	} {
		t.Run(target, func(t *testing.T) {
			config := `{"provider":"` + target + `","output_guardrails":[{"deny":true,"default.regexMatch":{"rule":"PLANTED-[0-9]{4}-SECRET","not":true}}]}`
			heads := begin(t, g.Request("POST", "/responses", `{"model":"m","input":"Hi","stream":true,"max_output_tokens":20}`, "x-gateway-provider", "", "x-gateway-config", config))
			c := u.next()
			c.events()
			c.send(provider.first)
			res := receive(t, heads, "the head")
			c.send(provider.then)
			c.finish()
			body := readRest(t, res.Body)
			if last := checkNumbers(t, body); last < 2 || !strings.Contains(body, `"guardrail_denied"`) && !strings.Contains(body, "denied") {
				t.Errorf("the client has %s", body)
			}
		})
	}
}
