package responses

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

var errNoResponse = errors.New("the body is not a response object")

// DecodeResponse reads a complete response. A response with the status failed
// is an error with the provider's message.
func (Dialect) DecodeResponse(body []byte, asked *llm.Request, to dialect.RequestTarget) (*llm.Response, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return nil, fmt.Errorf("reading a response: %w", err)
	}
	a := readOutcome(v)
	if a.failed.Kind() == jsonedit.Object {
		return nil, fmt.Errorf("%s: %s", to.Provider, failure(a.failed.Raw()))
	}
	if a.output.Kind() != jsonedit.Array {
		return nil, errNoResponse
	}
	if a.status == "failed" || a.status == "cancelled" {
		return nil, fmt.Errorf("%s: the response is %s", to.Provider, a.status)
	}
	r := &llm.Response{
		Dialect: own, ID: a.id, Model: a.model, Created: a.created, ServiceTier: a.tier,
		Usage: readUsage(a.usage), Choices: make([]llm.Choice, 1),
	}
	c := &r.Choices[0]
	for item := range a.output.Elements() {
		c.Parts = append(c.Parts, partsOf(item, vendorOf(to), asked)...)
		c.Logprobs = append(c.Logprobs, itemLogprobs(item)...)
	}
	c.Stop, c.NativeFinishReason = a.stop(c.Parts)
	return r, nil
}

// outcome holds the members of a response object except its output.
type outcome struct {
	id, model, tier, status, reason string
	created                         int64
	output, usage, failed           jsonedit.Value
}

func readOutcome(v jsonedit.Value) outcome {
	var a outcome
	for key, m := range v.Fields() {
		switch {
		case key.Is("id"):
			a.id, _ = m.Text()
		case key.Is("model"):
			a.model, _ = m.Text()
		case key.Is("created_at"):
			a.created = seconds(m)
		case key.Is("service_tier"):
			a.tier, _ = m.Text()
		case key.Is("status"):
			a.status, _ = m.Text()
		case key.Is("incomplete_details"):
			a.reason = m.TextOf("reason")
		case key.Is("output"):
			a.output = m
		case key.Is("usage"):
			a.usage = m
		case key.Is("error"):
			a.failed = m
		}
	}
	return a
}

// seconds reads a time, which is a fraction at some providers.
func seconds(v jsonedit.Value) int64 {
	f, ok := v.Float()
	if !ok || f < 0 || f > math.MaxInt32<<8 {
		return 0
	}
	return int64(f)
}

// stop returns the neutral and the native stop reason.
func (a *outcome) stop(parts []llm.Part) (llm.StopReason, string) {
	if a.status == "incomplete" {
		switch a.reason {
		case "content_filter":
			return llm.StopFilter, a.reason
		case "":
			return llm.StopLength, a.status
		}
		return llm.StopLength, a.reason
	}
	stop := llm.StopEnd
	for _, p := range parts {
		switch p.(type) {
		case llm.ToolCall:
			return llm.StopTool, a.status
		case llm.Refusal:
			stop = llm.StopRefusal
		}
	}
	return stop, a.status
}

// partsOf returns the parts of an output item.
func partsOf(v jsonedit.Value, vendor llm.Vendor, asked *llm.Request) []llm.Part {
	switch typ := v.TextOf("type"); typ {
	case "message":
		return messageParts(v)
	case "reasoning":
		return thoughts(v, vendor)
	case "function_call", "custom_tool_call":
		return []llm.Part{callOf(v, typ == "custom_tool_call", asked)}
	case "image_generation_call":
		return []llm.Part{imagePart(v)}
	case "":
		return nil
	default:
		return []llm.Part{dialect.TextOfUnknown(llm.Native{Dialect: own, Type: typ, Raw: v.Raw()})}
	}
}

func messageParts(v jsonedit.Value) []llm.Part {
	content, _ := v.Get("content")
	var parts []llm.Part
	for e := range content.Elements() {
		switch e.TextOf("type") {
		case "output_text":
			parts = append(parts, llm.Text{Text: e.TextOf("text"), Citations: citations(e)})
		case "refusal":
			parts = append(parts, llm.Refusal{Text: e.TextOf("refusal")})
		}
	}
	return parts
}

// argumentsOf returns the name of the member with the arguments of a call.
func argumentsOf(custom bool) string {
	if custom {
		return "input"
	}
	return "arguments"
}

func callOf(v jsonedit.Value, custom bool, asked *llm.Request) llm.ToolCall {
	c := llm.ToolCall{
		ID: v.TextOf("call_id"), Name: v.TextOf("name"), Arguments: v.TextOf(argumentsOf(custom)), Custom: custom,
	}
	if c.ID == "" {
		c.ID = v.TextOf("id")
	}
	c.Name = nameIn(asked, v.TextOf(spaceMember), c.Name)
	return c
}

// itemLogprobs returns the log probabilities of a message.
func itemLogprobs(v jsonedit.Value) []llm.Logprob {
	if v.TextOf("type") != "message" {
		return nil
	}
	content, _ := v.Get("content")
	var out []llm.Logprob
	for e := range content.Elements() {
		list, _ := e.Get("logprobs")
		out = append(out, logprobs(list)...)
	}
	return out
}

func logprobs(list jsonedit.Value) []llm.Logprob {
	var out []llm.Logprob
	for e := range list.Elements() {
		out = append(out, logprob(e))
	}
	return out
}

func logprob(v jsonedit.Value) llm.Logprob {
	p := alternative(v)
	top, _ := v.Get("top_logprobs")
	for e := range top.Elements() {
		p.Top = append(p.Top, alternative(e))
	}
	return p
}

// alternative reads one token with its log probability.
func alternative(v jsonedit.Value) llm.Logprob {
	var p llm.Logprob
	for key, m := range v.Fields() {
		switch {
		case key.Is("token"):
			p.Token, _ = m.Text()
		case key.Is("logprob"):
			p.Logprob, _ = m.Float()
		case key.Is("bytes"):
			for e := range m.Elements() {
				p.Bytes = append(p.Bytes, int(count(e)))
			}
		}
	}
	return p
}

// copied returns a copy of raw that is not a view of a frame.
func copied(raw []byte) []byte { return bytes.Clone(raw) }
