package bench

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
)

// providers are the managed providers of the gateway, by the dialect of their
// rows. Base is the path of the simulator that stands for the provider's address.
var providers = []struct{ slug, row, base string }{
	{"simulator", "openai-compatible", "/v1"},
	{"messages", "anthropic", "/v1"},
	{"gemini", "google", ""},
	{"converse", "bedrock", ""},
	{"chat", "cometapi", "/v1"}, // speaks nothing else
}

var messagesDoor = clientAPI{
	path:     "/v1/messages",
	before:   `"temperature": 0.7, "max_tokens": 1024, "system": "`,
	ask:      `", "messages": [{"role": "user", "content": "What is it about?"}]}`,
	complete: `"text":"`, delta: `"text_delta"`, piece: `"text":"`, end: `"message_stop"`,
}

var responsesDoor = clientAPI{
	path:     "/v1/responses",
	before:   `"temperature": 0.7, "max_output_tokens": 1024, "instructions": "`,
	ask:      `", "input": [{"role": "user", "content": "What is it about?"}]}`,
	complete: `"text":"`, delta: `"response.output_text.delta"`, piece: `"delta":"`, end: `"response.completed"`,
}

// pairs are the dialects of client and provider that are measured. In the first
// they are the same, and the others are compared with it.
var pairs = []struct {
	name string
	door *clientAPI
	slug string
}{
	{"chat → chat", &chatDoor, "simulator"},
	{"chat → messages", &chatDoor, "messages"},
	{"chat → gemini", &chatDoor, "gemini"},
	{"chat → converse", &chatDoor, "converse"},
	{"messages → chat", &messagesDoor, "chat"},
	{"responses → chat", &responsesDoor, "chat"},
}

const (
	pairConnections = 16
	textEvents      = 64 // of a stream
)

// expectedResponse is what a response has to say.
type expectedResponse struct {
	text         string
	delta, piece []byte // what the lines with text hold, and what is before each text
	end          []byte // what is in the last line but empty ones; empty for complete responses
	events       int    // how many lines with text there are
}

// check compares the strings of a response. None of them has an escape.
func (s *expectedResponse) check(body []byte) error {
	rest, events := s.text, 0
	var last []byte
	for line := range bytes.Lines(body) {
		if len(bytes.TrimSpace(line)) > 0 {
			last = line
		}
		if !bytes.Contains(line, s.delta) {
			continue
		}
		piece := textAfter(line, s.piece)
		if len(piece) == 0 {
			continue
		}
		if len(rest) < len(piece) || rest[:len(piece)] != string(piece) {
			return fmt.Errorf("a wrong text: %.80q where %.80q was left", piece, rest)
		}
		rest = rest[len(piece):]
		events++
	}
	if rest != "" || events != s.events || !bytes.Contains(last, s.end) {
		return fmt.Errorf("%d events with text of %d, %d bytes of text missing, the end %.80q", events, s.events, len(rest), last)
	}
	return nil
}

// translation measures the gateway between dialects, complete and streamed, at one
// number of connections.
func (r *run) translation(ctx context.Context) error {
	if r.Scale.Pairs == 0 {
		return nil
	}
	gate := r.targets[len(r.targets)-1]
	for _, events := range []int{0, textEvents} {
		samples, err := r.translated(ctx, events)
		if err != nil {
			return err
		}
		rounds := make([][]loaded, len(samples))
		for round := range r.Scale.Rounds {
			for i := range samples {
				l, err := r.closedLoop(ctx, gate, &samples[i], pairConnections, r.Scale.Load)
				if err != nil {
					return fmt.Errorf("%s: %w", pairs[i].name, err)
				}
				r.progressf("  round %d, %s, %d events: %.0f/s, %.1f µs CPU", round+1, pairs[i].name, events, l.perSecond, l.cpuMicros)
				rounds[i] = append(rounds[i], l)
			}
		}
		for i := range samples {
			r.report.addTranslated(pairs[i].name, events, rounds[i], rounds[0])
		}
	}
	return nil
}

// translated returns what is asked of each pair: for a complete response, or for a
// stream of this many events with text. The simulator itself says what the text is.
func (r *run) translated(ctx context.Context, events int) ([]sample, error) {
	model, members := "sim-1", ""
	if events > 0 {
		model, members = model+"+tokens="+strconv.Itoa(events), `"stream": true, `
	}
	c, err := dial(ctx, r.sim.addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	response, err := c.roundTrip(chatRequest(model, requestBytes, ""))
	if err != nil {
		return nil, err
	}
	text := string(textAfter(response, []byte(chatDoor.complete)))
	list := make([]sample, min(1+r.Scale.Pairs, len(pairs)))
	for i := range list {
		p := &pairs[i]
		list[i] = sample{request: p.door.request(p.slug, model, requestBytes, members), says: p.door.expectResponse(text, events)}
	}
	return list, nil
}

// expectResponse returns what a response with text has to say at d.
func (d *clientAPI) expectResponse(text string, events int) *expectedResponse {
	if events == 0 {
		return &expectedResponse{text: text, piece: []byte(d.complete), events: 1}
	}
	return &expectedResponse{text: text, delta: []byte(d.delta), piece: []byte(d.piece), end: []byte(d.end), events: events}
}

// textAfter returns what stands between mark and the next quote.
func textAfter(b, mark []byte) []byte {
	_, text, _ := bytes.Cut(b, mark)
	text, _, _ = bytes.Cut(text, []byte{'"'})
	return text
}
