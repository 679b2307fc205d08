package converse

import (
	"bytes"
	"errors"
	"slices"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// serverToolUse marks calls of tools that run at the provider.
const serverToolUse = "server_tool_use"

var errNoResponse = errors.New("converse: the response has no output")

// DecodeResponse reads a complete response.
func (Dialect) DecodeResponse(body []byte, r *llm.Request, to dialect.RequestTarget) (*llm.Response, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return nil, errNoResponse
	}
	output, ok := v.Get("output")
	if !ok {
		return nil, errNoResponse
	}
	message, _ := output.Get("message")
	content, _ := message.Get("content")
	d := newResponseState(r, to)
	var parts []llm.Part
	for block := range content.Elements() {
		parts = d.block(parts, block)
	}
	c := llm.Choice{Parts: d.withoutPreface(parts)}
	c.NativeFinishReason = v.TextOf("stopReason")
	c.Stop = d.stop(c.NativeFinishReason)
	c.StopText = stopText(v)
	c.Extra = extraOf(nil, v)
	usage, _ := v.Get("usage")
	tier, _ := v.Get("serviceTier")
	return &llm.Response{Dialect: name, Choices: []llm.Choice{c}, Usage: usageOf(usage), ServiceTier: tier.TextOf("type")}, nil
}

// responseState is what the decoder knows of a response: the settings of its request,
// and the content so far that affects later content.
type responseState struct {
	r      *llm.Request
	vendor llm.Vendor
	plan   plan

	json   bool  // the forced tool for the response format was called
	jsonAt []int // indexes of the parts that it produced in a complete response
	calls  bool  // another tool was called
}

func newResponseState(r *llm.Request, to dialect.RequestTarget) responseState {
	a := responseState{r: r, vendor: modelOf(to.KnownModel()).signs()}
	if r != nil {
		a.plan = planOf(r, modelOf(to.KnownModel()), thinkingOf(r, modelOf(to.KnownModel())))
	}
	return a
}

// block appends the part for a content block.
func (a *responseState) block(parts []llm.Part, v jsonedit.Value) []llm.Part {
	kind, inner := blockKind(v)
	switch kind {
	case "":
		return parts
	case "text":
		if text, _ := inner.Text(); text != "" {
			parts = append(parts, llm.Text{Text: text})
		}
		return parts
	case "toolUse":
		if inner.TextOf("type") != serverToolUse {
			return append(parts, a.call(inner, len(parts)))
		}
	case "reasoningContent":
		if p, ok := reasoning(inner, a.vendor); ok {
			if p, ok := p.(llm.Thinking); ok && p.Text == "" && p.Signature.Value == "" {
				return parts
			}
			return append(parts, p)
		}
	case "citationsContent":
		if p := cited(inner); p.Text != "" {
			return append(parts, p)
		}
	case "image":
		if p, ok := image(inner); ok {
			return append(parts, p)
		}
	}
	return append(parts, dialect.TextOfUnknown(llm.Native{Dialect: name, Type: kind, Raw: wrap(kind, inner.Raw())}))
}

// blockKind returns the member that decides a block's type; some models add a
// type of their own.
func blockKind(v jsonedit.Value) (string, jsonedit.Value) {
	for k, m := range v.Fields() {
		if !k.Is("type") && !m.IsNull() {
			return k.String(), m
		}
	}
	return "", jsonedit.Value{}
}

func (a *responseState) call(v jsonedit.Value, part int) llm.Part {
	input, _ := v.Get("input")
	arguments := string(input.Raw())
	called := v.TextOf("name")
	if a.standsForText(called) {
		a.json, a.jsonAt = true, append(a.jsonAt, part)
		return llm.Text{Text: arguments}
	}
	a.calls = true
	c := a.openedCall(called, v.TextOf("toolUseId"))
	c.Arguments = arguments
	if c.Custom {
		c.Arguments = dialect.UnwrapText(arguments)
	}
	return c
}

// standsForText reports whether a tool is the forced tool for the response
// format.
func (a *responseState) standsForText(called string) bool { return a.plan.tool && called == jsonTool }

// openedCall returns a call without arguments, under the name that the client
// uses.
func (a *responseState) openedCall(called, id string) llm.ToolCall {
	c := llm.ToolCall{ID: id, Name: called}
	if t := calledTool(a.r, called); t != nil {
		c.Name, c.Custom = t.Name, t.Custom
	}
	return c
}

// withoutPreface removes text next to the output of the forced tool, which
// would not match the requested format.
func (a *responseState) withoutPreface(parts []llm.Part) []llm.Part {
	if !a.plan.alone || !a.json {
		return parts
	}
	var out []llm.Part
	for i, p := range parts {
		if _, ok := p.(llm.Text); !ok || slices.Contains(a.jsonAt, i) {
			out = append(out, p)
		}
	}
	return out
}

// stop returns the neutral reason for a stop reason.
func (a *responseState) stop(said string) llm.StopReason {
	reason := dialect.StopReasonOf(said)
	if reason == llm.StopTool && a.json && !a.calls {
		return llm.StopEnd
	}
	return reason
}

// stops maps the protocol's stop reasons.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
var stops = map[string]llm.StopReason{
	"end_turn": llm.StopEnd, "stop_sequence": llm.StopSequence, "tool_use": llm.StopTool, "max_tokens": llm.StopLength,
	"model_context_window_exceeded": llm.StopContext, "guardrail_intervened": llm.StopFilter, "content_filtered": llm.StopFilter,
	"malformed_model_output": llm.StopFailed, "malformed_tool_use": llm.StopFailed,
	"refusal": llm.StopRefusal, "pause_turn": llm.StopPause,
}

// stopText returns the stop sequence that was hit, if the request asked for it.
func stopText(v jsonedit.Value) string {
	fields, _ := v.Get("additionalModelResponseFields")
	if delta, ok := fields.Get("delta"); ok {
		fields = delta
	}
	return fields.TextOf("stop_sequence")
}

// extraOf appends the members of a response that only this dialect has. A
// latency of zero means none.
func extraOf(list []llm.Member, v jsonedit.Value) []llm.Member {
	for _, member := range [...]string{"additionalModelResponseFields", "trace", "performanceConfig", "metrics"} {
		m, ok := v.Get(member)
		if !ok || m.IsNull() {
			continue
		}
		if latency, _ := m.Get("latencyMs"); member == "metrics" && string(latency.Raw()) == "0" {
			continue
		}
		list = append(list, llm.Member{Name: member, Value: bytes.Clone(m.Raw())})
	}
	return list
}

// usageOf reads token counters. The input excludes cached tokens.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_TokenUsage.html
func usageOf(v jsonedit.Value) (u llm.Usage) {
	if v.Kind() != jsonedit.Object {
		return u
	}
	var c dialect.Counter
	u.Input, u.Output = c.ReadMember(v, "inputTokens"), c.ReadMember(v, "outputTokens")
	u.CachedInput = c.ReadMember(v, "cacheReadInputTokens")
	u.CacheWrite5m = c.ReadMember(v, "cacheWriteInputTokens")
	details, _ := v.Get("cacheDetails")
	for e := range details.Elements() {
		if e.TextOf("ttl") == "1h" {
			n := min(c.ReadMember(e, "inputTokens"), u.CacheWrite5m)
			u.CacheWrite1h += n
			u.CacheWrite5m -= n
		}
	}
	c.Mark(&u)
	return u
}

func image(v jsonedit.Value) (llm.Media, bool) {
	source, _ := v.Get("source")
	m := llm.Media{Kind: llm.Image, Type: typeOf(llm.Image, v.TextOf("format")), Data: source.TextOf("bytes")}
	return m, m.Data != ""
}
