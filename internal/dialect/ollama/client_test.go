package ollama_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"time"

	"modelgate/internal/dialect"
	"modelgate/internal/dialect/ollama"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

// client reads requests and writes answers as Ollama does, by plain decoding:
// no client speaks the dialect, and the suite needs the other side.
type client struct{}

type wireCall struct {
	ID       string `json:"id"`
	Function struct {
		Index     int             `json:"index"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

type wireMessage struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	Thinking   string     `json:"thinking,omitempty"`
	Images     []string   `json:"images,omitempty"`
	ToolName   string     `json:"tool_name,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
	ToolCalls  []wireCall `json:"tool_calls,omitempty"`
}

type wireRequest struct {
	Model    string
	Messages []wireMessage
	Tools    []struct {
		Function struct {
			Name, Description string
			Parameters        json.RawMessage
		}
	}
	Stream  bool
	Format  json.RawMessage
	Think   json.RawMessage
	Options struct {
		NumPredict       *int64   `json:"num_predict"`
		Temperature      *float64 `json:"temperature"`
		TopP             *float64 `json:"top_p"`
		TopK             *int64   `json:"top_k"`
		FrequencyPenalty *float64 `json:"frequency_penalty"`
		PresencePenalty  *float64 `json:"presence_penalty"`
		Seed             *int64
		Stop             []string
	}
	Logprobs    *bool
	TopLogprobs *int64 `json:"top_logprobs"`
}

func (client) DecodeRequest(body []byte) (*llm.Request, error) {
	var w wireRequest
	if err := json.Unmarshal(body, &w); err != nil {
		return nil, dialect.Invalid("body", dialect.CodeType, "%v", err)
	}
	o := &w.Options
	r := &llm.Request{
		Model: w.Model, MaxTokens: o.NumPredict, Temperature: o.Temperature, TopP: o.TopP, TopK: o.TopK, Seed: o.Seed, Stop: o.Stop,
		FrequencyPenalty: o.FrequencyPenalty, PresencePenalty: o.PresencePenalty, Logprobs: w.Logprobs, TopLogprobs: w.TopLogprobs, Stream: w.Stream,
	}
	for _, t := range w.Tools {
		r.Tools = append(r.Tools, llm.Tool{Name: t.Function.Name, Description: t.Function.Description, Schema: t.Function.Parameters})
	}
	switch {
	case string(w.Format) == `"json"`:
		r.Format.Kind = llm.FormatJSON
	case w.Format != nil:
		r.Format = llm.Format{Kind: llm.FormatSchema, Schema: w.Format}
	}
	switch string(w.Think) {
	case "":
	case "false":
		r.Reasoning.Mode = llm.ThinkingDisabled
	case "true":
		r.Reasoning.Mode = llm.ThinkingEnabled
	default:
		_ = json.Unmarshal(w.Think, &r.Reasoning.Effort)
	}
	before := ""
	for _, m := range w.Messages {
		decodeMessage(r, &m, before)
		before = m.Role
	}
	return r, nil
}

func decodeMessage(r *llm.Request, m *wireMessage, before string) {
	var parts []llm.Part
	if m.Thinking != "" {
		parts = append(parts, llm.Thinking{Text: m.Thinking})
	}
	if m.Content != "" {
		parts = append(parts, llm.Text{Text: m.Content})
	}
	for _, data := range m.Images {
		parts = append(parts, llm.Media{Kind: llm.Image, Type: "image/png", Data: data})
	}
	for _, c := range m.ToolCalls {
		parts = append(parts, llm.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: string(c.Function.Arguments)})
	}
	if m.Role != "tool" {
		r.Messages = append(r.Messages, llm.Message{Role: llm.Role(m.Role), Parts: parts})
		return
	}
	result := llm.ToolResult{ID: m.ToolCallID, Name: m.ToolName, Parts: parts}
	if before != "tool" {
		r.Messages = append(r.Messages, llm.Message{Role: llm.User})
	}
	last := &r.Messages[len(r.Messages)-1]
	last.Parts = append(last.Parts, result)
}

type wireLogprob struct {
	Token   string        `json:"token"`
	Logprob float64       `json:"logprob"`
	Bytes   []int         `json:"bytes,omitempty"`
	Top     []wireLogprob `json:"top_logprobs,omitempty"`
}

func logprobs(list []llm.Logprob) (out []wireLogprob) {
	for _, p := range list {
		out = append(out, wireLogprob{p.Token, p.Logprob, p.Bytes, logprobs(p.Top)})
	}
	return out
}

type wireResponse struct {
	Model     string        `json:"model"`
	CreatedAt time.Time     `json:"created_at"`
	Message   wireMessage   `json:"message"`
	Done      bool          `json:"done"`
	Reason    string        `json:"done_reason,omitempty"`
	Logprobs  []wireLogprob `json:"logprobs,omitempty"`
	In        *int64        `json:"prompt_eval_count,omitempty"`
	Out       *int64        `json:"eval_count,omitempty"`
}

func (a *wireResponse) finish(stop llm.StopReason, u llm.Usage) {
	a.Done, a.Reason = true, "stop"
	if stop == llm.StopLength {
		a.Reason = "length"
	}
	if u.Known {
		a.In, a.Out = &u.Input, &u.Output
	}
}

func (a *wireResponse) append(dst []byte) []byte {
	b, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	return append(dst, b...)
}

func wireCallOf(p llm.ToolCall, n int) (c wireCall) {
	c.ID, c.Function.Index, c.Function.Name = p.ID, n, p.Name
	c.Function.Arguments = json.RawMessage(p.Arguments)
	if !json.Valid(c.Function.Arguments) {
		c.Function.Arguments = nil
	}
	if p.Custom {
		c.Function.Arguments, _ = json.Marshal(map[string]string{"input": p.Arguments})
	}
	return c
}

func (client) EncodeResponse(dst []byte, r *llm.Response, _ dialect.ResponseTarget) []byte {
	c := r.Choices[0]
	a := wireResponse{Model: r.Model, CreatedAt: time.Unix(r.Created, 5e8).UTC(), Logprobs: logprobs(c.Logprobs)}
	a.Message.Role = "assistant"
	for _, p := range c.Parts {
		switch p := p.(type) {
		case llm.Text:
			a.Message.Content = p.Text
		case llm.Thinking:
			a.Message.Thinking = p.Text
		case llm.ToolCall:
			a.Message.ToolCalls = append(a.Message.ToolCalls, wireCallOf(p, len(a.Message.ToolCalls)))
		}
	}
	a.finish(c.Stop, r.Usage)
	return a.append(dst)
}

func (client) NewEncoder(dialect.ResponseTarget) dialect.StreamEncoder {
	return &streamEncoder{parts: map[int]llm.Part{}}
}

type streamEncoder struct {
	model   string
	created time.Time
	parts   map[int]llm.Part
	stop    llm.StopReason
	usage   llm.Usage
}

func (e *streamEncoder) Encode(dst []byte, ev *llm.Event) []byte {
	a := wireResponse{Model: e.model, CreatedAt: e.created, Logprobs: logprobs(ev.Logprobs)}
	a.Message.Role = "assistant"
	switch ev.Kind {
	case llm.EventStart:
		e.model, e.created = ev.Model, time.Unix(ev.Created, 0).UTC()
		return dst
	case llm.EventPartStart:
		e.parts[ev.Part] = ev.Opened
		return dst
	case llm.EventFinish:
		e.stop = ev.Stop
		return dst
	case llm.EventUsage:
		e.usage = ev.Usage
		return dst
	case llm.EventDelta:
		switch p := e.parts[ev.Part].(type) {
		case llm.Text:
			a.Message.Content = ev.Text
		case llm.Thinking:
			a.Message.Thinking = ev.Text
		case llm.ToolCall:
			p.Arguments += ev.Text
			e.parts[ev.Part] = p
			return dst
		}
	case llm.EventPartEnd:
		call, ok := e.parts[ev.Part].(llm.ToolCall)
		if !ok {
			return dst
		}
		a.Message.ToolCalls = []wireCall{wireCallOf(call, ev.Part)}
	case llm.EventEnd:
		a.finish(e.stop, e.usage)
	}
	return append(a.append(dst), '\n')
}

// lines reads a stream of lines of JSON.
func lines(r io.Reader) (list []sse.Event, err error) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		list = append(list, sse.Event{Data: bytes.Clone(scanner.Bytes())})
	}
	return list, scanner.Err()
}

func TestKeepsConversationsWhole(t *testing.T) {
	yes := true
	for name, custom := range map[string]bool{"functions": false, "custom tools": true} {
		t.Run(name, func(t *testing.T) {
			dialecttest.Run(t, dialecttest.Suite{
				Dialect:  "ollama",
				Client:   client{},
				Provider: ollama.Dialect{},
				Target:   target,
				ResponseTarget: dialect.ResponseTarget{Request: &llm.Request{
					Stream: true, IncludeUsage: &yes, Tools: []llm.Tool{{Name: "tool_0"}, {Name: "tool_1", Custom: custom}},
				}},
				Can:    can(custom),
				Frames: lines,
			})
		})
	}
}

func can(custom bool) dialecttest.Capabilities {
	images := map[llm.MediaKind]dialecttest.Medium{llm.Image: {Types: []string{"image/png"}}}
	return dialecttest.Capabilities{
		Fields: []llm.Field{
			llm.FieldTools, llm.FieldFormat, llm.FieldMaxTokens, llm.FieldTemperature, llm.FieldTopP, llm.FieldTopK, llm.FieldStop,
			llm.FieldFrequencyPenalty, llm.FieldPresencePenalty, llm.FieldSeed, llm.FieldLogprobs, llm.FieldTopLogprobs, llm.FieldThinking, llm.FieldEffort,
		},
		Formats: []llm.FormatKind{llm.FormatJSON, llm.FormatSchema},
		Modes:   []llm.ThinkingMode{llm.ThinkingDisabled, llm.ThinkingAdaptive},
		OneText: true, LateSystem: true, TwoUsers: true, Media: images, ResultMedia: images,
		Thinking: true, ResultNames: true, CustomTools: custom,
		Stops: []llm.StopReason{llm.StopEnd, llm.StopLength},
		Model: true, Created: true,
		Usage: llm.Usage{Input: 1, Output: 1},
		Fit: func(r *llm.Request) {
			r.Format.Name = ""
			if r.Reasoning.Mode == llm.ThinkingAdaptive { // distinguished by no one
				r.Reasoning.Mode = llm.ThinkingEnabled
			}
			if custom { // that they are adapted is announced; this is for answers
				r.Tools, r.Messages = nil, r.Messages[:1]
			}
		},
	}
}
