package oracle_test

import (
	"encoding/json"
	"strings"
	"testing"

	"modelgate/internal/dialect"
	"modelgate/internal/dialect/oracle"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

// client reads requests and writes answers as Oracle does, by plain decoding:
// no client speaks the dialect, and the suite needs the other side.
type client struct{}

type wireURL struct{ URL, Detail string }

type wireBlock struct {
	Type        string
	Text        string
	ImageURL    *wireURL `json:"imageUrl"`
	AudioURL    *wireURL `json:"audioUrl"`
	VideoURL    *wireURL `json:"videoUrl"`
	DocumentURL *wireURL `json:"documentUrl"`
}

type wireCall struct {
	ID        string `json:"id,omitempty"`
	Type      string `json:"type"`
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type wireMessage struct {
	Role       string
	Content    []wireBlock
	Name       string
	Refusal    string
	ToolCalls  []wireCall `json:"toolCalls"`
	ToolCallID string     `json:"toolCallId"`
}

type wireRequest struct {
	ServingMode struct{ ModelID string }
	ChatRequest struct {
		APIFormat         string
		Messages          []wireMessage
		Tools             []llmTool
		IsParallel        *bool `json:"isParallelToolCalls"`
		ToolChoice        *struct{ Type, Name string }
		Format            *wireFormat `json:"responseFormat"`
		MaxTokens         *int64
		Temperature, TopP *float64
		TopK, Seed        *int64
		FrequencyPenalty  *float64
		PresencePenalty   *float64
		NumGenerations    *int64
		Stop              []string
		LogitBias         json.RawMessage
		LogProbs          *int64
		Effort            string `json:"reasoningEffort"`
		Verbosity         string
		ServiceTier       string
		Metadata          json.RawMessage
		IsStream          bool
	}
}

type llmTool struct {
	Type, Name, Description string
	Parameters              json.RawMessage
}

type wireFormat struct {
	Type   string
	Schema struct {
		Name     string
		Schema   json.RawMessage
		IsStrict *bool
	} `json:"jsonSchema"`
}

func (client) DecodeRequest(body []byte) (*llm.Request, error) {
	var w wireRequest
	if err := json.Unmarshal(body, &w); err != nil {
		return nil, dialect.Invalid("body", dialect.CodeType, "%v", err)
	}
	c := &w.ChatRequest
	r := &llm.Request{
		Model: w.ServingMode.ModelID, ParallelTools: c.IsParallel, MaxTokens: c.MaxTokens, Temperature: c.Temperature, TopP: c.TopP, TopK: c.TopK,
		Seed: c.Seed, FrequencyPenalty: c.FrequencyPenalty, PresencePenalty: c.PresencePenalty, N: c.NumGenerations, Stop: c.Stop,
		LogitBias: c.LogitBias, TopLogprobs: c.LogProbs, Verbosity: strings.ToLower(c.Verbosity), ServiceTier: strings.ToLower(c.ServiceTier),
		Metadata: c.Metadata, Stream: c.IsStream, Reasoning: llm.Reasoning{Effort: strings.ToLower(c.Effort)},
	}
	if c.LogProbs != nil {
		yes := true
		r.Logprobs = &yes
	}
	for _, t := range c.Tools {
		r.Tools = append(r.Tools, llm.Tool{Name: t.Name, Description: t.Description, Schema: t.Parameters})
	}
	if t := c.ToolChoice; t != nil {
		r.ToolChoice.Mode = llm.ChoiceMode(strings.ToLower(t.Type))
		if t.Name != "" {
			r.ToolChoice = llm.ToolChoice{Mode: llm.ChoiceTool, Names: []string{t.Name}}
		}
	}
	if f := c.Format; f != nil {
		r.Format = llm.Format{Kind: llm.FormatKind(strings.ToLower(f.Type)), Name: f.Schema.Name, Schema: f.Schema.Schema, Strict: f.Schema.IsStrict}
	}
	before := ""
	for _, m := range c.Messages {
		decodeMessage(r, &m, before)
		before = m.Role
	}
	return r, nil
}

func decodeMessage(r *llm.Request, m *wireMessage, before string) {
	var parts []llm.Part
	for _, b := range m.Content {
		parts = append(parts, partOf(b))
	}
	if m.Refusal != "" {
		parts = append(parts, llm.Refusal{Text: m.Refusal})
	}
	for _, c := range m.ToolCalls {
		parts = append(parts, llm.ToolCall{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
	}
	if m.Role != "TOOL" {
		r.Messages = append(r.Messages, llm.Message{Role: llm.Role(strings.ToLower(m.Role)), Name: m.Name, Parts: parts})
		return
	}
	if before != "TOOL" {
		r.Messages = append(r.Messages, llm.Message{Role: llm.User})
	}
	last := &r.Messages[len(r.Messages)-1]
	last.Parts = append(last.Parts, llm.ToolResult{ID: m.ToolCallID, Parts: parts})
}

func partOf(b wireBlock) llm.Part {
	m := llm.Media{Kind: llm.MediaKind(strings.ToLower(b.Type))}
	for _, u := range []*wireURL{b.ImageURL, b.AudioURL, b.VideoURL, b.DocumentURL} {
		if u == nil {
			continue
		}
		m.URL, m.Detail = u.URL, strings.ToLower(u.Detail)
		if mime, data, ok := dialect.ParseDataURL(u.URL); ok {
			m.Type, m.Data, m.URL = mime, data, ""
		}
		return m
	}
	return llm.Text{Text: b.Text}
}

type object = map[string]any

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

var reasons = map[llm.StopReason]string{llm.StopEnd: "stop", llm.StopLength: "length", llm.StopFilter: "content_filter", llm.StopTool: "tool_calls"}

func usage(u llm.Usage) any {
	if !u.Known {
		return nil
	}
	return object{
		"promptTokens": u.Prompt(), "completionTokens": u.Completion(), "totalTokens": u.Total(),
		"promptTokensDetails":     object{"cachedTokens": u.CachedInput, "audioTokens": u.InputAudio},
		"completionTokensDetails": object{"reasoningTokens": u.Reasoning, "audioTokens": u.OutputAudio},
	}
}

func arguments(c llm.ToolCall) string {
	if c.Custom {
		return string(marshal(object{"input": c.Arguments}))
	}
	return c.Arguments
}

func logprobs(list []llm.Logprob) any {
	if list == nil {
		return nil
	}
	var tokens, numbers, top []any
	for _, p := range list {
		others := object{}
		for _, o := range p.Top {
			others[o.Token] = o.Logprob
		}
		tokens, numbers, top = append(tokens, p.Token), append(numbers, p.Logprob), append(top, others)
	}
	return object{"tokens": tokens, "tokenLogprobs": numbers, "topLogprobs": top}
}

func (client) EncodeResponse(dst []byte, r *llm.Response, _ dialect.ResponseTarget) []byte {
	var choices []object
	for i, c := range r.Choices {
		message := object{"role": "ASSISTANT"}
		var calls []wireCall
		for _, p := range c.Parts {
			switch p := p.(type) {
			case llm.Text:
				message["content"] = []object{{"type": "TEXT", "text": p.Text}}
			case llm.Thinking:
				message["reasoningContent"] = p.Text
			case llm.Refusal:
				message["refusal"] = p.Text
			case llm.ToolCall:
				calls = append(calls, wireCall{p.ID, "FUNCTION", p.Name, arguments(p)})
			}
		}
		message["toolCalls"] = calls
		choices = append(choices, object{"index": i, "message": message, "finishReason": reasons[c.Stop], "logprobs": logprobs(c.Logprobs)})
	}
	chat := object{"apiFormat": "GENERIC", "choices": choices, "usage": usage(r.Usage)}
	return append(dst, marshal(object{"modelId": r.Model, "chatResponse": chat})...)
}

func (client) NewEncoder(dialect.ResponseTarget) dialect.StreamEncoder {
	return &streamEncoder{parts: map[[2]int]llm.Part{}}
}

type streamEncoder struct{ parts map[[2]int]llm.Part }

func frame(dst []byte, v object) []byte {
	v["pad"] = "aaaa"
	return append(append(append(dst, "data: "...), marshal(v)...), "\n\n"...)
}

func (e *streamEncoder) Encode(dst []byte, ev *llm.Event) []byte {
	at := [2]int{ev.Choice, ev.Part}
	message := object{"role": "ASSISTANT"}
	switch ev.Kind {
	case llm.EventPartStart:
		e.parts[at] = ev.Opened
		call, ok := ev.Opened.(llm.ToolCall)
		if !ok {
			return dst
		}
		message["toolCalls"] = []wireCall{{ID: call.ID, Name: call.Name, Type: "FUNCTION"}}
	case llm.EventDelta:
		switch p := e.parts[at].(type) {
		case llm.Text:
			message["content"] = []object{{"type": "TEXT", "text": ev.Text}}
		case llm.Thinking:
			message["reasoningContent"] = ev.Text
		case llm.Refusal:
			message["refusal"] = ev.Text
		case llm.ToolCall:
			if p.Custom {
				p.Arguments += ev.Text
				e.parts[at] = p
				return dst
			}
			message["toolCalls"] = []wireCall{{ID: p.ID, Arguments: ev.Text}}
		}
	case llm.EventPartEnd:
		call, _ := e.parts[at].(llm.ToolCall)
		if !call.Custom {
			return dst
		}
		message["toolCalls"] = []wireCall{{ID: call.ID, Arguments: arguments(call)}}
	case llm.EventFinish:
		return frame(dst, object{"index": ev.Choice, "finishReason": reasons[ev.Stop]})
	case llm.EventUsage:
		return frame(dst, object{"usage": usage(ev.Usage)})
	default:
		return dst
	}
	return frame(dst, object{"index": ev.Choice, "message": message, "logprobs": logprobs(ev.Logprobs)})
}

func TestKeepsConversationsWhole(t *testing.T) {
	yes := true
	for name, custom := range map[string]bool{"functions": false, "custom tools": true} {
		t.Run(name, func(t *testing.T) {
			dialecttest.Run(t, dialecttest.Suite{
				Dialect:  "oracle",
				Client:   client{},
				Provider: oracle.Dialect{},
				Target:   target,
				ResponseTarget: dialect.ResponseTarget{Request: &llm.Request{
					Stream: true, IncludeUsage: &yes, Tools: []llm.Tool{{Name: "tool_0"}, {Name: "tool_1", Custom: custom}},
				}},
				Can: can(custom),
			})
		})
	}
}

func can(custom bool) dialecttest.Capabilities {
	return dialecttest.Capabilities{
		Fields: []llm.Field{
			llm.FieldTools, llm.FieldToolChoice, llm.FieldParallelTools, llm.FieldFormat, llm.FieldMaxTokens, llm.FieldTemperature, llm.FieldTopP,
			llm.FieldTopK, llm.FieldFrequencyPenalty, llm.FieldPresencePenalty, llm.FieldSeed, llm.FieldStop, llm.FieldLogitBias, llm.FieldLogprobs,
			llm.FieldTopLogprobs, llm.FieldN, llm.FieldEffort, llm.FieldVerbosity, llm.FieldMetadata, llm.FieldServiceTier,
		},
		Efforts: []string{"none", "minimal", "low", "medium", "high"},
		Media: map[llm.MediaKind]dialecttest.Medium{
			llm.Image:    {Types: []string{"image/png"}, URL: true, Details: []string{"low", "high", "auto"}},
			llm.Audio:    {Types: []string{"audio/wav"}},
			llm.Video:    {URL: true},
			llm.Document: {Types: []string{"application/pdf"}, URL: true},
		},
		LateSystem: true, TwoUsers: true, Names: true, Thinking: true, Refusal: true, CustomTools: custom,
		Stops: []llm.StopReason{llm.StopEnd, llm.StopLength, llm.StopFilter},
		Usage: llm.Usage{Input: 1, CachedInput: 1, InputAudio: 1, Output: 1, Reasoning: 1, OutputAudio: 1},
		Fit: func(r *llm.Request) {
			fit(r)
			if custom { // that they are adapted is announced; this is for answers
				r.Tools, r.ToolChoice, r.ParallelTools, r.Messages = nil, llm.ToolChoice{}, nil, r.Messages[:1]
			}
		},
		FitResponse: func(r *llm.Response) {
			r.Model = target.Model
			for i := range r.Choices {
				for j := range r.Choices[i].Logprobs {
					p := &r.Choices[i].Logprobs[j]
					p.Bytes = nil
					for k := range p.Top {
						p.Top[k].Bytes = nil
					}
					if len(p.Top) > 0 { // an object has no order
						p.Top = p.Top[:1]
					}
				}
			}
		},
	}
}

// fit takes out what Oracle can't say together, or is not told again.
func fit(r *llm.Request) {
	if r.Logprobs != nil && r.TopLogprobs == nil {
		r.TopLogprobs = new(int64(1))
	}
	if len(r.Tools) == 0 {
		r.ParallelTools = nil
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		for j, p := range m.Parts {
			if _, ok := p.(llm.Thinking); ok {
				m.Parts = append(m.Parts[:j], m.Parts[j+1:]...)
				break
			}
		}
	}
}
