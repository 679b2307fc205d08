package cohere_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/dialect"
	"modelgate/internal/dialect/cohere"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

// client reads requests and writes answers as Cohere does, by plain decoding:
// no client speaks the dialect, and the suite needs the other side.
type client struct{}

type wireRequest struct {
	Model    string
	Messages []struct {
		Role       string
		Content    json.RawMessage
		ToolPlan   string `json:"tool_plan"`
		ToolCallID string `json:"tool_call_id"`
		ToolCalls  []struct {
			ID       string
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
	Tools []struct {
		Function struct {
			Name, Description string
			Parameters        json.RawMessage
		}
	}
	StrictTools    bool   `json:"strict_tools"`
	ToolChoice     string `json:"tool_choice"`
	ResponseFormat *struct {
		Type   string
		Schema json.RawMessage `json:"json_schema"`
	} `json:"response_format"`
	MaxTokens        *int64   `json:"max_tokens"`
	Temperature      *float64 `json:"temperature"`
	P                *float64
	K                *int64
	FrequencyPenalty *float64 `json:"frequency_penalty"`
	PresencePenalty  *float64 `json:"presence_penalty"`
	Seed             *int64
	Stop             []string `json:"stop_sequences"`
	Logprobs         *bool
	Thinking         *struct {
		Type   string
		Budget *int64 `json:"token_budget"`
	}
	Stream bool
}

const freeText = `{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}`

func (client) DecodeRequest(body []byte) (*llm.Request, error) {
	var w wireRequest
	if err := json.Unmarshal(body, &w); err != nil {
		return nil, dialect.Invalid("body", dialect.CodeType, "%v", err)
	}
	r := &llm.Request{
		Model: w.Model, MaxTokens: w.MaxTokens, Temperature: w.Temperature, TopP: w.P, TopK: w.K, Seed: w.Seed, Stop: w.Stop,
		FrequencyPenalty: w.FrequencyPenalty, PresencePenalty: w.PresencePenalty, Logprobs: w.Logprobs, Stream: w.Stream,
	}
	custom := map[string]bool{}
	for _, t := range w.Tools {
		tool := llm.Tool{Name: t.Function.Name, Description: t.Function.Description, Schema: t.Function.Parameters}
		if string(tool.Schema) == freeText {
			tool.Schema, tool.Custom = nil, true
			custom[tool.Name] = true
		}
		if w.StrictTools {
			tool.Strict = &w.StrictTools
		}
		r.Tools = append(r.Tools, tool)
	}
	r.ToolChoice.Mode = map[string]llm.ChoiceMode{"NONE": llm.ChoiceNone, "REQUIRED": llm.ChoiceRequired}[w.ToolChoice]
	if f := w.ResponseFormat; f != nil {
		r.Format = llm.Format{Kind: llm.FormatJSON, Schema: f.Schema}
		if f.Schema != nil {
			r.Format.Kind = llm.FormatSchema
		}
	}
	if w.Thinking != nil {
		r.Reasoning = llm.Reasoning{Mode: llm.ThinkingMode(w.Thinking.Type), Budget: w.Thinking.Budget}
	}
	decodeMessages(r, &w, custom)
	return r, nil
}

func decodeMessages(r *llm.Request, w *wireRequest, custom map[string]bool) {
	customCalls := map[string]bool{}
	before := ""
	for _, m := range w.Messages {
		parts := decodeContent(m.Content)
		switch m.Role {
		case "tool":
			result := llm.ToolResult{ID: m.ToolCallID, Parts: parts, Custom: customCalls[m.ToolCallID]}
			if before == "tool" {
				last := &r.Messages[len(r.Messages)-1]
				last.Parts = append(last.Parts, result)
			} else {
				r.Messages = append(r.Messages, llm.Message{Role: llm.User, Parts: []llm.Part{result}})
			}
		default:
			if m.ToolPlan != "" {
				parts = append(parts, llm.Thinking{Text: m.ToolPlan})
			}
			for _, c := range m.ToolCalls {
				call := llm.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments}
				if custom[call.Name] {
					var in struct{ Input string }
					_ = json.Unmarshal([]byte(call.Arguments), &in)
					call.Custom, call.Arguments = true, in.Input
					customCalls[call.ID] = true
				}
				parts = append(parts, call)
			}
			r.Messages = append(r.Messages, llm.Message{Role: llm.Role(m.Role), Parts: parts})
		}
		before = m.Role
	}
}

func decodeContent(raw json.RawMessage) (parts []llm.Part) {
	var s string
	if len(raw) == 0 {
		return nil
	}
	if json.Unmarshal(raw, &s) == nil {
		return []llm.Part{llm.Text{Text: s}}
	}
	var blocks []struct {
		Type, Text, Thinking string
		ImageURL             struct{ URL, Detail string } `json:"image_url"`
	}
	_ = json.Unmarshal(raw, &blocks)
	for _, b := range blocks {
		switch b.Type {
		case "text":
			parts = append(parts, llm.Text{Text: b.Text})
		case "thinking":
			parts = append(parts, llm.Thinking{Text: b.Thinking})
		case "image_url":
			m := llm.Media{Kind: llm.Image, URL: b.ImageURL.URL, Detail: b.ImageURL.Detail}
			if mime, data, ok := dialect.ParseDataURL(m.URL); ok {
				m.Type, m.Data, m.URL = mime, data, ""
			}
			parts = append(parts, m)
		}
	}
	return parts
}

type object = map[string]any

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

var reasons = map[llm.StopReason]string{
	llm.StopEnd: "COMPLETE", llm.StopLength: "MAX_TOKENS", llm.StopSequence: "STOP_SEQUENCE", llm.StopTool: "TOOL_CALL",
}

func usage(u llm.Usage) any {
	if !u.Known {
		return nil
	}
	return object{"tokens": object{"input_tokens": u.Input + u.CachedInput, "output_tokens": u.Output}, "cached_tokens": u.CachedInput}
}

func arguments(c llm.ToolCall) string {
	if c.Custom {
		return string(marshal(object{"input": c.Arguments}))
	}
	return c.Arguments
}

func citation(c llm.Citation, block int) object {
	document := object{"id": "doc:0", "title": c.Title, "url": c.URL}
	return object{
		"start": c.Start, "end": c.End, "text": c.Text, "type": "TEXT_CONTENT", "content_index": block,
		"sources": []object{{"type": "document", "id": "doc:0", "document": document}},
	}
}

func (client) EncodeResponse(dst []byte, r *llm.Response, _ dialect.ResponseTarget) []byte {
	var content, calls, cites []object
	for _, p := range r.Choices[0].Parts {
		switch p := p.(type) {
		case llm.Text:
			for _, c := range p.Citations {
				cites = append(cites, citation(c, len(content)))
			}
			content = append(content, object{"type": "text", "text": p.Text})
		case llm.Thinking:
			content = append(content, object{"type": "thinking", "thinking": p.Text})
		case llm.ToolCall:
			calls = append(calls, object{"id": p.ID, "type": "function", "function": object{"name": p.Name, "arguments": arguments(p)}})
		}
	}
	return append(dst, marshal(object{
		"id": r.ID, "finish_reason": reasons[r.Choices[0].Stop], "usage": usage(r.Usage),
		"message": object{"role": "assistant", "content": content, "tool_calls": calls, "citations": cites},
	})...)
}

func (client) NewEncoder(dialect.ResponseTarget) dialect.StreamEncoder {
	return &streamEncoder{parts: map[int]llm.Part{}}
}

type streamEncoder struct {
	parts  map[int]llm.Part
	texts  map[int]string // arguments of custom tools
	finish llm.Event
	usage  llm.Usage
}

func frame(dst []byte, kind string, body object) []byte {
	body["type"] = kind
	return fmt.Appendf(dst, "event: %s\ndata: %s\n\n", kind, marshal(body))
}

func message(inner object) object { return object{"message": inner} }

func (e *streamEncoder) Encode(dst []byte, ev *llm.Event) []byte {
	switch ev.Kind {
	case llm.EventStart:
		return frame(dst, "message-start", object{"id": ev.ID, "delta": message(object{"role": "assistant"})})
	case llm.EventPartStart:
		e.parts[ev.Part] = ev.Opened
		return e.start(dst, ev)
	case llm.EventDelta:
		return e.delta(dst, ev)
	case llm.EventPartEnd:
		kind := "content-end"
		if c, ok := e.parts[ev.Part].(llm.ToolCall); ok {
			kind = "tool-call-end"
			if c.Custom {
				c.Arguments += e.texts[ev.Part]
				dst = e.argument(dst, ev.Part, arguments(c))
			}
		}
		return frame(dst, kind, object{"index": ev.Part})
	case llm.EventFinish:
		e.finish = *ev
	case llm.EventUsage:
		e.usage = ev.Usage
	case llm.EventEnd:
		dst = frame(dst, "message-end", object{"delta": object{"finish_reason": reasons[e.finish.Stop], "usage": usage(e.usage)}})
		return append(dst, "data: [DONE]\n\n"...)
	}
	return dst
}

func (e *streamEncoder) argument(dst []byte, part int, text string) []byte {
	return frame(dst, "tool-call-delta", object{"index": part, "delta": message(object{"tool_calls": object{"function": object{"arguments": text}}})})
}

func (e *streamEncoder) start(dst []byte, ev *llm.Event) []byte {
	switch p := ev.Opened.(type) {
	case llm.Text:
		dst = frame(dst, "content-start", object{"index": ev.Part, "delta": message(object{"content": object{"type": "text", "text": p.Text}})})
		for _, c := range p.Citations {
			dst = frame(dst, "citation-start", object{"index": 0, "delta": message(object{"citations": citation(c, ev.Part)})})
			dst = frame(dst, "citation-end", object{"index": 0})
		}
	case llm.Thinking:
		dst = frame(dst, "content-start", object{"index": ev.Part, "delta": message(object{"content": object{"type": "thinking", "thinking": p.Text}})})
	case llm.ToolCall:
		dst = frame(dst, "tool-call-start", object{"index": ev.Part, "delta": message(object{"tool_calls": object{
			"id": p.ID, "type": "function", "function": object{"name": p.Name, "arguments": ""}}})})
	}
	return dst
}

func (e *streamEncoder) delta(dst []byte, ev *llm.Event) []byte {
	switch p := e.parts[ev.Part].(type) {
	case llm.Text:
		return frame(dst, "content-delta", object{"index": ev.Part, "delta": message(object{"content": object{"text": ev.Text}})})
	case llm.Thinking:
		return frame(dst, "content-delta", object{"index": ev.Part, "delta": message(object{"content": object{"thinking": ev.Text}})})
	case llm.ToolCall:
		if !p.Custom {
			return e.argument(dst, ev.Part, ev.Text)
		}
		if e.texts == nil {
			e.texts = map[int]string{}
		}
		e.texts[ev.Part] += ev.Text
	}
	return dst
}

// fit takes out what Cohere can't say together.
func fit(r *llm.Request) {
	if r.TopP != nil {
		*r.TopP = min(max(*r.TopP, 0.01), 0.99)
	}
	for _, penalty := range []*float64{r.FrequencyPenalty, r.PresencePenalty} {
		if penalty != nil {
			*penalty = min(max(*penalty, 0), 1)
		}
	}
	if len(r.Tools) > 0 || r.Format.Kind == llm.FormatText {
		r.Format = llm.Format{}
	}
	r.Format.Name, r.Format.Strict = "", nil
	all := true
	for i := range r.Tools {
		all = all && r.Tools[i].Strict != nil
	}
	for i := range r.Tools {
		if !all {
			r.Tools[i].Strict = nil
		}
	}
	for i := range r.Messages {
		r.Messages[i].Parts = withoutWords(r.Messages[i].Parts)
	}
}

// withoutWords leaves words next to calls out: they become a plan.
func withoutWords(parts []llm.Part) (out []llm.Part) {
	calls := strings.Contains(fmt.Sprintf("%T", parts[len(parts)-1]), "ToolCall")
	for _, p := range parts {
		if _, ok := p.(llm.Text); !ok || !calls {
			out = append(out, p)
		}
	}
	return out
}

func TestKeepsConversationsWhole(t *testing.T) {
	yes := true
	for name, custom := range map[string]bool{"functions": false, "custom tools": true} {
		t.Run(name, func(t *testing.T) {
			dialecttest.Run(t, dialecttest.Suite{
				Dialect:  "cohere",
				Client:   client{},
				Provider: cohere.Dialect{},
				Target:   dialect.RequestTarget{Provider: "cohere", Model: "command-a-03-2025"},
				ResponseTarget: dialect.ResponseTarget{Request: &llm.Request{
					Stream: true, IncludeUsage: &yes, Tools: []llm.Tool{{Name: "tool_0"}, {Name: "tool_1", Custom: custom}},
				}},
				Can: can(custom),
			})
		})
	}
}

func can(custom bool) dialecttest.Capabilities {
	fields := []llm.Field{
		llm.FieldTools, llm.FieldToolChoice, llm.FieldFormat, llm.FieldMaxTokens, llm.FieldTemperature, llm.FieldTopP, llm.FieldTopK,
		llm.FieldFrequencyPenalty, llm.FieldPresencePenalty, llm.FieldSeed, llm.FieldThinking,
	}
	return dialecttest.Capabilities{
		Fields:  fields,
		Choices: []llm.ChoiceMode{llm.ChoiceNone, llm.ChoiceRequired},
		Media: map[llm.MediaKind]dialecttest.Medium{
			llm.Image: {Types: []string{"image/png", "image/webp"}, URL: true, Details: []string{"low", "high", "auto"}},
		},
		LateSystem: true, TwoUsers: true, Thinking: true, Citations: true, StrictTools: !custom, CustomTools: custom,
		Stops: []llm.StopReason{llm.StopEnd, llm.StopLength, llm.StopSequence},
		ID:    true,
		Usage: llm.Usage{Input: 1, CachedInput: 1, Output: 1},
		Fit: func(r *llm.Request) {
			fit(r)
			if custom { // that they are adapted is announced; this is for answers
				r.Tools, r.ToolChoice, r.Messages = nil, llm.ToolChoice{}, r.Messages[:1]
			}
		},
		FitResponse: func(r *llm.Response) { r.Model = "command-a-03-2025" },
	}
}
