package oracle

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

var errNoResponse = errors.New("the response has no choices")

// DecodeResponse reads a complete response.
func (Dialect) DecodeResponse(body []byte, r *llm.Request, to dialect.RequestTarget) (*llm.Response, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return nil, fmt.Errorf("reading a response of oracle: %w", err)
	}
	chat, _ := v.Get("chatResponse")
	out := &llm.Response{Dialect: name, Model: cmp.Or(v.TextOf("modelId"), to.Model), Created: created(chat)}
	if isCohere(r, to) && chat.TextOf("finishReason") != "" {
		choice, usage := cohereResponse(chat, r)
		if choice.NativeFinishReason == "ERROR" {
			return nil, fmt.Errorf("%w: %s", errNoResponse, cmp.Or(chat.TextOf("errorMessage"), "the model failed"))
		}
		out.Choices, out.Usage = []llm.Choice{choice}, usage
		return out, nil
	}
	choices, _ := chat.Get("choices")
	if choices.Kind() != jsonedit.Array {
		if words := dialect.ErrorMessage(body); words != "" {
			return nil, fmt.Errorf("%w: %s", errNoResponse, words)
		}
		return nil, errNoResponse
	}
	for c := range choices.Elements() {
		out.Choices = append(out.Choices, choiceOf(c, r))
	}
	if len(out.Choices) == 0 {
		return nil, errNoResponse
	}
	usage, _ := chat.Get("usage")
	out.Usage = usageOf(usage)
	return out, nil
}

func choiceOf(v jsonedit.Value, r *llm.Request) llm.Choice {
	message, _ := v.Get("message")
	out := llm.Choice{NativeFinishReason: v.TextOf("finishReason")}
	if s := message.TextOf("reasoningContent"); s != "" {
		out.Parts = append(out.Parts, llm.Thinking{Text: s})
	}
	content, _ := message.Get("content")
	if s := words(content); s != "" {
		out.Parts = append(out.Parts, llm.Text{Text: s})
	}
	if s := message.TextOf("refusal"); s != "" {
		out.Parts = append(out.Parts, llm.Refusal{Text: s})
	}
	calls, _ := message.Get("toolCalls")
	called := false
	for c := range calls.Elements() {
		call := llm.ToolCall{ID: c.TextOf("id"), Name: c.TextOf("name"), Arguments: c.TextOf("arguments")}
		if r.IsCustom(call.Name) {
			call.Custom, call.Arguments = true, dialect.UnwrapText(call.Arguments)
		}
		out.Parts = append(out.Parts, call)
		called = true
	}
	logprobs, _ := v.Get("logprobs")
	out.Logprobs = logprobsOf(logprobs)
	out.Stop = stopOf(out.NativeFinishReason, called)
	return out
}

// words returns the joined texts of a content.
func words(content jsonedit.Value) string {
	var first string
	var more strings.Builder
	for block := range content.Elements() {
		switch s := block.TextOf("text"); {
		case s == "":
		case first == "":
			first = s
		default:
			more.WriteString(s)
		}
	}
	if more.Len() == 0 {
		return first
	}
	return first + more.String()
}

// stopOf returns the neutral reason for a finish reason, which models write in
// upper or lower case.
func stopOf(said string, called bool) llm.StopReason {
	stop := dialect.StopReasonOf(said)
	if called && stop == llm.StopEnd {
		return llm.StopTool
	}
	return stop
}

// created returns the time of the response in unix seconds: it is a date, or a
// number from some models.
func created(chat jsonedit.Value) int64 {
	v, _ := chat.Get("timeCreated")
	if f, ok := v.Float(); ok && f > 0 && f < math.MaxInt32<<4 {
		return int64(f)
	}
	s, _ := v.Text()
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Unix() < 0 {
		return 0
	}
	return t.Unix()
}

// usageOf reads the token counts. The details are part of the totals.
func usageOf(v jsonedit.Value) llm.Usage {
	if v.Kind() != jsonedit.Object {
		return llm.Usage{}
	}
	var c dialect.Counter
	u := llm.Usage{Input: c.ReadMember(v, "promptTokens"), Output: c.ReadMember(v, "completionTokens")}
	in, _ := v.Get("promptTokensDetails")
	out, _ := v.Get("completionTokensDetails")
	u.CachedInput = takeUpTo(&u.Input, c.ReadMember(in, "cachedTokens"))
	u.InputAudio = takeUpTo(&u.Input, c.ReadMember(in, "audioTokens"))
	u.Reasoning = takeUpTo(&u.Output, c.ReadMember(out, "reasoningTokens"))
	u.OutputAudio = takeUpTo(&u.Output, c.ReadMember(out, "audioTokens"))
	c.Mark(&u)
	return u
}

// takeUpTo subtracts up to n from *total and returns what it subtracted.
func takeUpTo(total *int64, n int64) int64 {
	n = min(n, *total)
	*total -= n
	return n
}

// logprobsOf reads the lists of tokens and of their log probabilities.
func logprobsOf(v jsonedit.Value) (list []llm.Logprob) {
	tokens, _ := v.Get("tokens")
	for token := range tokens.Elements() {
		s, _ := token.Text()
		list = append(list, llm.Logprob{Token: s})
	}
	i := 0
	numbers, _ := v.Get("tokenLogprobs")
	for n := range numbers.Elements() {
		if i < len(list) {
			list[i].Logprob, _ = n.Float()
		}
		i++
	}
	i = 0
	top, _ := v.Get("topLogprobs")
	for others := range top.Elements() {
		for token, n := range others.Fields() {
			if f, ok := n.Float(); ok && i < len(list) {
				list[i].Top = append(list[i].Top, llm.Logprob{Token: token.String(), Logprob: f})
			}
		}
		i++
	}
	return list
}
