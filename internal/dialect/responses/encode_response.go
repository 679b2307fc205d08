package responses

import (
	"slices"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// head holds the members of a response object except its output.
type head struct {
	id      string
	model   string
	created int64
	tier    string
	usage   llm.Usage
	stop    llm.StopReason
	fault   *llm.ProviderError
	asked   []byte // members that repeat the request, built once
}

// newHead returns the head of a response, with defaults for what the provider
// left out.
func newHead(id, model, tier string, created int64, to dialect.ResponseTarget) head {
	h := head{id: id, model: model, created: created, tier: tier}
	if !strings.HasPrefix(h.id, "resp_") {
		h.id = "resp_" + to.ID
	}
	if h.created == 0 {
		h.created = to.Created
	}
	if r := to.Request; r != nil {
		if h.model == "" {
			h.model = r.Model
		}
		if h.tier == "" {
			h.tier = r.ServiceTier
		}
	}
	h.asked = echoedRequest(to.Request)
	return h
}

// ending returns the status of a complete response, and the reason if it is
// incomplete.
func ending(stop llm.StopReason, items []*item) (status, reason string) {
	switch stop {
	case llm.StopLength, llm.StopContext, llm.StopOther:
		return "incomplete", "max_output_tokens"
	case llm.StopFilter:
		return "incomplete", "content_filter"
	case llm.StopRefusal:
		for _, it := range items {
			for _, c := range it.content {
				if c.refusal {
					return "completed", ""
				}
			}
		}
		return "incomplete", "content_filter"
	}
	return "completed", ""
}

// write writes the response object. Its output holds the completed items.
func (h *head) write(b *jsonedit.Builder, status, reason string, items []*item) {
	b.Open('{')
	b.Name("id")
	b.String(h.id)
	b.Name("object")
	b.String("response")
	b.Name("created_at")
	b.Int(h.created)
	b.Name("status")
	b.String(status)
	b.Name("error")
	h.writeError(b)
	b.Name("incomplete_details")
	writeReason(b, reason)
	b.Name("model")
	b.String(h.model)
	b.Name("output")
	b.Open('[')
	for i, it := range items {
		switch {
		case it.broken:
			it.write(b, "incomplete")
		case i == len(items)-1:
			it.write(b, itemStatus(status)) // the item in which the response broke off
		default:
			it.write(b, "completed")
		}
	}
	b.Close(']')
	b.Name("usage")
	writeUsage(b, h.usage)
	b.Name("service_tier")
	nullable(b, h.tier)
	b.Name("background")
	b.Bool(false)
	b.Raw(h.asked)
	b.Close('}')
}

func writeReason(b *jsonedit.Builder, reason string) {
	if reason == "" {
		b.Null()
		return
	}
	b.Open('{')
	b.Name("reason")
	b.String(reason)
	b.Close('}')
}

// itemStatus returns the status of an item for a status of the response.
func itemStatus(status string) string {
	switch status {
	case "completed", "in_progress":
		return status
	}
	return "incomplete"
}

func (h *head) writeError(b *jsonedit.Builder) {
	if h.fault == nil {
		b.Null()
		return
	}
	b.Open('{')
	b.Name("code")
	b.String(errorCode(h.fault))
	b.Name("message")
	b.String(h.fault.Message)
	b.Close('}')
}

// errorCode returns the protocol's code for a fault: the provider's own if the
// protocol has it.
func errorCode(f *llm.ProviderError) string {
	for _, word := range [...]string{f.Code, f.Type} {
		switch word {
		case "server_error", "rate_limit_exceeded", "invalid_prompt", "context_length_exceeded", "insufficient_quota", "vector_store_timeout":
			return word
		}
		if strings.Contains(word, "rate_limit") || strings.Contains(word, "hrottl") || word == "429" || word == "RESOURCE_EXHAUSTED" {
			return "rate_limit_exceeded"
		}
	}
	return "server_error"
}

func nullable(b *jsonedit.Builder, text string) {
	if text == "" {
		b.Null()
		return
	}
	b.String(text)
}

// echoedRequest returns the members of a response that repeat the request,
// separated by commas.
func echoedRequest(r *llm.Request) []byte {
	if r == nil {
		r = &llm.Request{}
	}
	text, ok := instructions(r)
	b := jsonedit.Append(make([]byte, 0, len(text)+len(text)/8+1<<10))
	b.Name("instructions")
	if ok {
		b.String(text)
	} else {
		b.Null()
	}
	b.Name("max_output_tokens")
	writeInt(&b, r.MaxTokens)
	b.Name("parallel_tool_calls")
	b.Bool(r.ParallelTools == nil || *r.ParallelTools)
	b.Name("previous_response_id")
	b.Null()
	askedReasoning(&b, &r.Reasoning)
	b.Name("store")
	b.Bool(false) // translated responses are not stored
	b.Name("temperature")
	writeFloat(&b, r.Temperature)
	askedText(&b, r)
	askedTools(&b, r)
	b.Name("top_p")
	writeFloat(&b, r.TopP)
	b.Name("user")
	nullable(&b, r.User)
	askedExtra(&b, r)
	return b.Bytes()
}

func askedReasoning(b *jsonedit.Builder, r *llm.Reasoning) {
	b.Name("reasoning")
	b.Open('{')
	b.Name("effort")
	nullable(b, r.Effort)
	b.Name("summary")
	nullable(b, r.Summary)
	b.Close('}')
}

func askedText(b *jsonedit.Builder, r *llm.Request) {
	f := r.Format
	if f.Kind == "" {
		f.Kind = llm.FormatText
	}
	b.Name("text")
	writeText(b, &f, r.Verbosity)
}

func askedTools(b *jsonedit.Builder, r *llm.Request) {
	b.Name("tool_choice")
	if r.ToolChoice.Mode == "" && r.ToolChoice.Raw == nil {
		b.String("auto")
	} else {
		writeChoice(b, r)
	}
	b.Name("tools")
	writeTools(b, r.Tools, r.Dialect == own, func(llm.ServerTool) string { return "" })
}

// askedExtra repeats the parameters that only this dialect has and that a
// response contains, including those with a default other than null.
func askedExtra(b *jsonedit.Builder, r *llm.Request) {
	b.Name("top_logprobs")
	if r.TopLogprobs == nil {
		b.Int(0)
	} else {
		b.Int(*r.TopLogprobs)
	}
	b.Name("metadata")
	if r.Metadata == nil {
		b.Raw([]byte("{}"))
	} else {
		b.Raw(r.Metadata)
	}
	for _, name := range [...]string{"truncation", "max_tool_calls", "prompt_cache_key", "safety_identifier"} {
		value := r.Parameter(name)
		b.Name(name)
		if value == nil && name == "truncation" {
			value = []byte(`"disabled"`)
		}
		b.Raw(value)
	}
}

func writeInt(b *jsonedit.Builder, n *int64) {
	if n == nil {
		b.Null()
		return
	}
	b.Int(*n)
}

func writeFloat(b *jsonedit.Builder, f *float64) {
	if f == nil {
		b.Null()
		return
	}
	b.Float(*f)
}

// EncodeResponse appends the body of a complete response. The protocol has one
// choice, so only the first is written.
func (Dialect) EncodeResponse(dst []byte, r *llm.Response, to dialect.ResponseTarget) []byte {
	a := output{to: to}
	h := newHead(r.ID, r.Model, r.ServiceTier, r.Created, to)
	h.usage = r.Usage
	var logprobs []llm.Logprob
	if len(r.Choices) > 0 {
		h.stop, logprobs = r.Choices[0].Stop, r.Choices[0].Logprobs
		for _, p := range r.Choices[0].Parts {
			logprobs = a.addPart(p, logprobs)
		}
	}
	status, reason := ending(h.stop, a.items)
	// The caller reserved capacity for the content, but not for the repeated
	// request.
	b := jsonedit.Append(slices.Grow(dst, cap(dst)-len(dst)+len(h.asked)))
	h.write(&b, status, reason, a.items)
	return b.Bytes()
}

// addPart adds a complete part. It returns the log probabilities unless a text
// has used them.
func (a *output) addPart(p llm.Part, logprobs []llm.Logprob) []llm.Logprob {
	if c, ok := p.(llm.ToolCall); ok && c.Signature.Value != "" {
		a.addSignature(c.Signature)
	}
	it, c := a.begin(p)
	if it == nil {
		return logprobs
	}
	it.done = true
	switch part := p.(type) {
	case llm.Text:
		c.text, c.cites, c.logprobs = []byte(part.Text), part.Citations, logprobs
		if part.Signature.Value != "" {
			a.addTextSignature(part.Signature)
		}
		return nil
	case llm.Refusal:
		c.text = []byte(part.Text)
	case llm.Thinking:
		it.text, it.sign = []byte(part.Text), part.Signature
	case llm.ToolCall:
		it.text, it.done, it.broken = []byte(part.Arguments), !part.Broken, part.Broken
	}
	return logprobs
}
