package responses

import (
	"slices"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// head is what a response object says beside its output.
type head struct {
	id      string
	model   string
	created int64
	tier    string
	usage   llm.Usage
	stop    llm.StopReason
	fault   *llm.ProviderError
	asked   []byte // members that repeat the request, made once
}

// newHead returns the headers of an response, with what the provider did not give
// filled in.
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

// ending is the status of a complete response, and why it is incomplete.
func ending(stop llm.StopReason, items []*item) (status, reason string) {
	switch stop {
	case llm.StopLength, llm.StopContext:
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

// write writes the response object. Output holds the items that are done.
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
		if i == len(items)-1 {
			it.write(b, itemStatus(status)) // what the answer broke off in
		} else {
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

// itemStatus is the status of the items of an answer with that of its own.
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

// errorCode is the protocol's code for a fault: the provider's own where the
// protocol has it too.
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

// echoedRequest returns the members of a response that repeat the request, with commas
// between them.
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
	b.Bool(false) // nothing is kept of a translated answer
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

// askedExtra repeats the parameters that only this dialect knows and that a
// response holds too, and those that are not null when they were not sent.
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

// EncodeResponse appends the body of a complete response: the first choice, since the
// protocol has no others.
func (Dialect) EncodeResponse(dst []byte, r *llm.Response, to dialect.ResponseTarget) []byte {
	a := answer{to: to}
	h := newHead(r.ID, r.Model, r.ServiceTier, r.Created, to)
	h.usage = r.Usage
	var logprobs []llm.Logprob
	if len(r.Choices) > 0 {
		h.stop, logprobs = r.Choices[0].Stop, r.Choices[0].Logprobs
		for _, p := range r.Choices[0].Parts {
			logprobs = a.whole(p, logprobs)
		}
	}
	status, reason := ending(h.stop, a.items)
	// The caller made room for what the answer says, not for what it repeats.
	b := jsonedit.Append(slices.Grow(dst, cap(dst)-len(dst)+len(h.asked)))
	h.write(&b, status, reason, a.items)
	return b.Bytes()
}

// whole adds a part that is whole. Those of the logprobs that have found no text
// yet are returned.
func (a *answer) whole(p llm.Part, logprobs []llm.Logprob) []llm.Logprob {
	if c, ok := p.(llm.ToolCall); ok && c.Signature.Value != "" {
		a.signed(c.Signature)
	}
	it, c := a.begin(p)
	if it == nil {
		return logprobs
	}
	it.done = true
	switch part := p.(type) {
	case llm.Text:
		c.text, c.cites, c.logprobs = []byte(part.Text), part.Citations, logprobs
		return nil
	case llm.Refusal:
		c.text = []byte(part.Text)
	case llm.Thinking:
		it.text, it.sign = []byte(part.Text), part.Signature
	case llm.ToolCall:
		it.text = []byte(part.Arguments)
	}
	return logprobs
}
