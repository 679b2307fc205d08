package chat_test

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/dialect"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

// plainChoice is what a recording says of a choice, read without the codec.
type plainChoice struct {
	Text, Thought, Refusal, Finish string
	Calls                          []plainCall
	Images, Sounds, Citations      int
}

type plainCall struct{ ID, Name, Arguments string }

// plainPiece is a delta or a message.
type plainPiece struct {
	Content          json.RawMessage
	ReasoningContent string `json:"reasoning_content"`
	Reasoning        string
	ReasoningDetails []struct{ Text, Summary string } `json:"reasoning_details"`
	Refusal          string
	Images           []json.RawMessage
	Audio            *struct{ Data string }
	Annotations      []json.RawMessage
	FunctionCall     *struct{ Name, Arguments string } `json:"function_call"`
	ToolCalls        []struct {
		Index    *int
		ID       string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

type plainChunk struct {
	Choices []struct {
		Index          int
		Delta, Message *plainPiece
		FinishReason   *string `json:"finish_reason"`
	}
	Citations []string
}

func (c *plainChoice) add(p *plainPiece) {
	var text string
	var parts []struct {
		Type, Text string
		Thinking   []struct{ Text string }
	}
	if json.Unmarshal(p.Content, &text) == nil {
		c.Text += text
	} else if json.Unmarshal(p.Content, &parts) == nil {
		for _, part := range parts {
			c.Text += part.Text
			for _, t := range part.Thinking {
				c.Thought += t.Text
			}
		}
	}
	var detailed strings.Builder
	for _, d := range p.ReasoningDetails {
		detailed.WriteString(d.Text + d.Summary)
	}
	switch {
	case len(p.ReasoningDetails) > 0:
		c.Thought += detailed.String()
	case p.ReasoningContent != "":
		c.Thought += p.ReasoningContent
	default:
		c.Thought += p.Reasoning
	}
	c.Refusal += p.Refusal
	c.Images += len(p.Images)
	c.Citations += len(p.Annotations)
	if p.Audio != nil && p.Audio.Data != "" && c.Sounds == 0 {
		c.Sounds++
	}
	if f := p.FunctionCall; f != nil {
		if len(c.Calls) == 0 {
			c.Calls = append(c.Calls, plainCall{})
		}
		c.Calls[0].Name += f.Name
		c.Calls[0].Arguments += f.Arguments
	}
	for n, call := range p.ToolCalls {
		if call.Index != nil {
			n = *call.Index
		}
		for len(c.Calls) <= n {
			c.Calls = append(c.Calls, plainCall{})
		}
		if call.ID != "" {
			c.Calls[n].ID = call.ID
		}
		c.Calls[n].Name += call.Function.Name
		c.Calls[n].Arguments += call.Function.Arguments
	}
}

// plainChoices reads a response: a body, or the data lines of a stream.
func plainChoices(t *testing.T, r *recorded) []plainChoice {
	t.Helper()
	bodies := []string{r.Response.Body}
	if r.streamed() {
		bodies = nil
		for line := range strings.Lines(r.Response.Body) {
			if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:"); ok && strings.TrimSpace(data) != "[DONE]" {
				bodies = append(bodies, data)
			}
		}
	}
	var choices []plainChoice
	for _, body := range bodies {
		var chunk plainChunk
		if err := json.Unmarshal([]byte(body), &chunk); err != nil {
			t.Fatalf("%s: %v", r.file, err)
		}
		for _, ch := range chunk.Choices {
			for len(choices) <= ch.Index {
				choices = append(choices, plainChoice{})
			}
			c := &choices[ch.Index]
			if piece := ch.Delta; piece != nil {
				c.add(piece)
			} else if ch.Message != nil {
				c.add(ch.Message)
			}
			if ch.FinishReason != nil && *ch.FinishReason != "" {
				c.Finish = *ch.FinishReason
			}
			if len(chunk.Citations) > 0 && c.Citations == 0 {
				c.Citations = len(chunk.Citations)
			}
		}
	}
	return choices
}

// shown is what the codec read, in the same form. Ids that it made are left
// out.
func shown(r *llm.Response, made func(id string) bool) []plainChoice {
	var choices []plainChoice
	for _, ch := range r.Choices {
		c := plainChoice{Finish: ch.NativeFinishReason}
		for _, p := range ch.Parts {
			switch part := p.(type) {
			case llm.Text:
				c.Text += part.Text
				c.Citations += len(part.Citations)
			case llm.Thinking:
				c.Thought += part.Text
			case llm.Refusal:
				c.Refusal += part.Text
			case llm.ToolCall:
				id := part.ID
				if made(id) {
					id = ""
				}
				c.Calls = append(c.Calls, plainCall{id, part.Name, part.Arguments})
			case llm.Media:
				if part.Kind == llm.Audio {
					c.Sounds++
				} else {
					c.Images++
				}
			}
		}
		choices = append(choices, c)
	}
	return choices
}

// decodeStream reads a stream to its end.
func decodeStream(t *testing.T, file string, src io.Reader, asked *llm.Request, to dialect.RequestTarget) (*llm.Response, *llm.ProviderError, bool) {
	t.Helper()
	frames, err := dialecttest.ServerSentEvents(src)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	d := chat.Dialect{}.NewDecoder(asked, to)
	var events []llm.Event
	for _, frame := range frames {
		events = d.Decode(events, frame)
	}
	events = d.End(events)
	if why := dialecttest.CheckEventOrder(events); why != "" {
		t.Errorf("%s: %s", file, why)
	}
	var all dialect.Assembler
	for i := range events {
		all.Add(&events[i])
	}
	return all.Response()
}

func TestRecordedResponsesDecodeToTheirContent(t *testing.T) {
	var streams, bodies, calls, thoughts int
	for _, r := range mustRecorded(t) {
		if r.API != "chat-completions" || r.Response.Status != 200 || r.Response.Body == "" {
			continue
		}
		to := dialecttest.TargetOf(r.Provider, "m")
		want := plainChoices(t, &r)
		for i := range want { // places that hold no call
			want[i].Calls = slices.DeleteFunc(want[i].Calls, func(c plainCall) bool { return c.Name == "" })
			if len(want[i].Calls) == 0 {
				want[i].Calls = nil
			}
		}
		var got *llm.Response
		if r.streamed() {
			streams++
			var fault *llm.ProviderError
			var whole bool
			got, fault, whole = decodeStream(t, r.file, strings.NewReader(r.Response.Body), nil, to)
			if fault != nil || !whole {
				t.Logf("%s: fault %v, whole %t", r.file, fault, whole)
			}
			again, _, _ := decodeStream(t, r.file, iotest.OneByteReader(strings.NewReader(r.Response.Body)), nil, to)
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("%s, byte by byte (-whole +cut):\n%s", r.file, diff)
			}
		} else {
			bodies++
			var err error
			if got, err = (chat.Dialect{}).DecodeResponse([]byte(r.Response.Body), nil, to); err != nil {
				t.Errorf("%s: %v", r.file, err)
				continue
			}
		}
		made := func(id string) bool { return !strings.Contains(r.Response.Body, id) }
		if diff := cmp.Diff(want, shown(got, made)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", r.file, diff)
		}
		if diff := cmp.Diff(plainly(r.op, r.Response.Body, r.streamed()).Usage, got.Usage); diff != "" {
			t.Errorf("%s: usage (-want +got):\n%s", r.file, diff)
		}
		calls += len(slices.DeleteFunc(want, func(c plainChoice) bool { return len(c.Calls) == 0 }))
		for _, c := range shown(got, made) {
			if c.Thought != "" {
				thoughts++
			}
		}
	}
	t.Logf("%d streams, %d bodies, %d with calls, %d with thinking", streams, bodies, calls, thoughts)
	if streams < 50 || bodies < 150 || calls < 60 || thoughts < 30 {
		t.Errorf("%d streams, %d bodies, %d with calls, %d with thinking: too few to show anything", streams, bodies, calls, thoughts)
	}
}

func TestRecordedRequestsAreRead(t *testing.T) {
	n := 0
	for _, r := range mustRecorded(t) {
		var body map[string]json.RawMessage
		if r.API != "chat-completions" || r.Response.Status != 200 || json.Unmarshal(r.Request.Body, &body) != nil || body["messages"] == nil {
			continue
		}
		n++
		req, err := chat.Dialect{}.DecodeRequest(r.Request.Body)
		if err != nil {
			t.Errorf("%s: %v", r.file, err)
			continue
		}
		again, fates, err := chat.Dialect{}.EncodeRequest(nil, req, dialecttest.TargetOf("openai", req.Model))
		if err != nil || !json.Valid(again) {
			t.Errorf("%s: EncodeRequest: %v, %s", r.file, err, again)
			continue
		}
		back, err := chat.Dialect{}.DecodeRequest(again)
		if err != nil {
			t.Errorf("%s: %v\n%s", r.file, err, again)
			continue
		}
		withoutThoughts(req) // the vendor does not receive it again
		if diff := cmp.Diff(req, back, dialecttest.Same()); diff != "" {
			t.Errorf("%s, fates %v (-want +got):\n%s", r.file, fates, diff)
		}
	}
	if n < 200 {
		t.Errorf("%d requests read, too few to show anything", n)
	}
}
