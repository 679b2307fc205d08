package cohere

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

var errNoResponse = errors.New("the response has no message")

// DecodeResponse reads a complete response.
func (Dialect) DecodeResponse(body []byte, r *llm.Request, to dialect.RequestTarget) (*llm.Response, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return nil, fmt.Errorf("reading a response of cohere: %w", err)
	}
	message, _ := v.Get("message")
	if message.Kind() != jsonedit.Object {
		if text := dialect.ErrorMessage(body); text != "" {
			return nil, fmt.Errorf("%w: %s", errNoResponse, text)
		}
		return nil, errNoResponse
	}
	w := responseAssembler{plan: planOf(r), first: -1}
	w.content(message)
	w.calls(message)
	w.citations(message)
	said := v.TextOf("finish_reason")
	if fault := failed(said, v.TextOf("error")); fault != nil {
		return nil, errors.New(fault.Message)
	}
	choice := llm.Choice{Parts: w.parts, Stop: stopOf(said, w.called), NativeFinishReason: said}
	if logprobs, ok := v.Get("logprobs"); ok {
		for item := range logprobs.Elements() {
			choice.Logprobs = appendLogprob(choice.Logprobs, item)
		}
	}
	usage, _ := v.Get("usage")
	id := v.TextOf("id")
	if id == "" {
		id = v.TextOf("generation_id")
	}
	return &llm.Response{Dialect: name, ID: id, Model: to.Model, Choices: []llm.Choice{choice}, Usage: usageOf(usage)}, nil
}

// responseAssembler collects the parts of a complete response in the order of a
// streamed one.
type responseAssembler struct {
	plan   plan
	parts  []llm.Part
	texts  []int // index in parts of the text of each content block, -1 for others
	first  int   // index in parts of the first text, -1 if there is none
	called bool
}

func (w *responseAssembler) content(message jsonedit.Value) {
	content, _ := message.Get("content")
	if words, ok := content.Text(); ok && words != "" {
		w.text(words)
	}
	for block := range content.Elements() {
		switch kind := block.TextOf("type"); kind {
		case "text":
			w.text(block.TextOf("text"))
			continue
		case "thinking":
			w.parts = append(w.parts, llm.Thinking{Text: block.TextOf("thinking")})
		default:
			w.parts = append(w.parts, dialect.TextOfUnknown(llm.Native{Dialect: name, Type: kind, Raw: block.Raw()}))
		}
		w.texts = append(w.texts, -1)
	}
	if plan := message.TextOf("tool_plan"); plan != "" {
		w.parts = append(w.parts, llm.Thinking{Text: plan})
	}
}

func (w *responseAssembler) text(words string) {
	if w.first < 0 {
		w.first = len(w.parts)
	}
	w.texts = append(w.texts, len(w.parts))
	w.parts = append(w.parts, llm.Text{Text: words})
}

func (w *responseAssembler) calls(message jsonedit.Value) {
	list, _ := message.Get("tool_calls")
	for call := range list.Elements() {
		function, _ := call.Get("function")
		arguments := argumentsOf(function)
		part := llm.ToolCall{ID: call.TextOf("id"), Name: function.TextOf("name"), Arguments: arguments}
		switch {
		case w.plan.emulated && part.Name == formatTool:
			w.parts = append(w.parts, llm.Text{Text: arguments})
			continue
		case w.plan.custom(part.Name):
			part.Custom, part.Arguments = true, dialect.UnwrapText(arguments)
		}
		w.parts = append(w.parts, part)
		w.called = true
	}
}

// argumentsOf returns the arguments of a call. Cohere may write the word null
// for no arguments.
func argumentsOf(function jsonedit.Value) string {
	v, _ := function.Get("arguments")
	switch v.Kind() {
	case jsonedit.Object:
		return string(v.Raw())
	case jsonedit.String:
		if s, _ := v.Text(); s != "null" {
			return s
		}
	}
	return ""
}

// citations adds each citation to its text.
func (w *responseAssembler) citations(message jsonedit.Value) {
	list, _ := message.Get("citations")
	for c := range list.Elements() {
		i := w.cited(c)
		if i < 0 {
			continue
		}
		part, _ := w.parts[i].(llm.Text)
		part.Citations = append(part.Citations, citationOf(c, c.Raw()))
		w.parts[i] = part
	}
}

// cited returns the index of the part that a citation refers to, negative for
// the plan or thinking.
func (w *responseAssembler) cited(c jsonedit.Value) int {
	if !ofText(c) {
		return -1
	}
	if block, ok := c.Get("content_index"); ok {
		if n, ok := block.Int(); ok && n >= 0 && n < int64(len(w.texts)) {
			return w.texts[n]
		}
	}
	return w.first
}

// ofText reports whether a citation refers to the text of the response.
func ofText(c jsonedit.Value) bool {
	kind := c.TextOf("type")
	return kind == "" || kind == "TEXT_CONTENT"
}

func citationOf(c jsonedit.Value, raw json.RawMessage) llm.Citation {
	out := llm.Citation{Text: c.TextOf("text"), Start: place(c, "start"), End: place(c, "end"), Raw: raw, Dialect: name}
	sources, _ := c.Get("sources")
	for source := range sources.Elements() {
		document, ok := source.Get("document")
		if !ok {
			document, _ = source.Get("tool_output")
		}
		out.Title, out.URL = document.TextOf("title"), document.TextOf("url")
		break
	}
	return out
}

func place(v jsonedit.Value, name string) int {
	return int(min(count(v, name), math.MaxInt32))
}

// stopOf returns the neutral reason for a finish reason.
func stopOf(said string, called bool) llm.StopReason {
	switch stop := dialect.StopReasonOf(said); stop {
	case llm.StopEnd, llm.StopSequence, llm.StopTool: // the call for a format is the text
		if called {
			return llm.StopTool
		}
		if stop == llm.StopTool {
			return llm.StopEnd
		}
		return stop
	default:
		return stop
	}
}

// failed returns the error of a response that Cohere aborted and gives a reason for.
func failed(said, why string) *llm.ProviderError {
	if why == "" {
		return nil
	}
	return &llm.ProviderError{Type: said, Message: why}
}

// usageOf reads the token counts, or the billed units if there are none, which
// exclude the tokens that Cohere adds to a prompt. Cached tokens are part of
// the input.
// https://docs.cohere.com/reference/chat
func usageOf(v jsonedit.Value) llm.Usage {
	var u llm.Usage
	counts, ok := v.Get("tokens")
	if !ok || counts.Kind() != jsonedit.Object {
		counts, ok = v.Get("billed_units")
	}
	if !ok || counts.Kind() != jsonedit.Object {
		return u
	}
	var c dialect.Counter
	u.Input, u.Output = c.ReadMember(counts, "input_tokens"), c.ReadMember(counts, "output_tokens")
	u.CachedInput = min(c.ReadMember(v, "cached_tokens"), u.Input)
	u.Input -= u.CachedInput
	c.Mark(&u)
	return u
}

// count returns a counter, which may be written as a fraction; zero if it is
// missing or implausible.
func count(v jsonedit.Value, name string) int64 {
	n, ok := v.Get(name)
	if !ok {
		return 0
	}
	f, ok := n.Float()
	if !ok || f < 0 || f > math.MaxInt64>>16 {
		return 0
	}
	return int64(f)
}

// appendLogprob appends a piece of text, which may have several tokens; their
// logarithms are added.
func appendLogprob(dst []llm.Logprob, item jsonedit.Value) []llm.Logprob {
	list, _ := item.Get("logprobs")
	sum, n := 0.0, 0
	for v := range list.Elements() {
		if f, ok := v.Float(); ok {
			sum += f
			n++
		}
	}
	if n == 0 {
		return dst
	}
	return append(dst, llm.Logprob{Token: item.TextOf("text"), Logprob: sum})
}
