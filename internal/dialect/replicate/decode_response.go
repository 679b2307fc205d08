package replicate

import (
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// DecodeResponse reads a prediction that has succeeded.
func (Dialect) DecodeResponse(body []byte, _ *llm.Request, to dialect.RequestTarget) (*llm.Response, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return nil, err
	}
	out := &llm.Response{Dialect: name, ID: v.TextOf("id"), Model: to.Model, Usage: usageOf(v)}
	output, _ := v.Get("output")
	choice := llm.Choice{Stop: llm.StopEnd, NativeFinishReason: v.TextOf("status")}
	if words := strings.Join(texts(output), ""); words != "" {
		choice.Parts = []llm.Part{llm.Text{Text: words}}
	}
	out.Choices = []llm.Choice{choice}
	return out, nil
}

// texts returns the strings of an output: one string, or a list of pieces.
func texts(v jsonedit.Value) (list []string) {
	if s, ok := v.Text(); ok {
		return append(list, s)
	}
	for e := range v.Elements() {
		if s, ok := e.Text(); ok {
			list = append(list, s)
		}
	}
	return list
}

func usageOf(v jsonedit.Value) llm.Usage {
	metrics, _ := v.Get("metrics")
	var c dialect.Counter
	u := llm.Usage{Input: c.ReadMember(metrics, "input_token_count"), Output: c.ReadMember(metrics, "output_token_count")}
	c.Mark(&u)
	return u
}
