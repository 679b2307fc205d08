package responses

import (
	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/format/grammar"
	"modelgate/internal/format/jsonedit"
)

const inputForms = "a string or an array of items"

var (
	anArray        = grammar.List{}
	stringOrObject = grammar.ByKind{Text: grammar.Text{}, Object: grammar.Object{}, What: "a string or an object"}
)

// modelRule is checked first: an error of a request without a model would help
// little. A provider of this dialect may accept such a request, with a prompt
// that it stores.
var modelRule = grammar.NewBody([]grammar.Member{{Name: "model", Rule: grammar.Text{}, Required: true}})

// body lists the parameters with a fixed form. Others pass, since the protocol
// grows faster than gateways are updated. Null passes everywhere, because
// official clients send it for parameters that are not set.
var body = grammar.NewBody([]grammar.Member{
	{Name: "input", Rule: grammar.ByKind{Text: grammar.Text{}, Array: anArray, What: inputForms}},
	{Name: "instructions", Rule: grammar.Text{}},
	{Name: "max_output_tokens", Rule: atLeast(1)},
	{Name: "max_tool_calls", Rule: atLeast(0)},
	{Name: "temperature", Rule: grammar.Number{Min: 0, Max: 2}},
	{Name: "top_p", Rule: grammar.Number{Min: 0, Max: 1}},
	{Name: "top_logprobs", Rule: grammar.Integer{Min: 0, Max: 20}},
	{Name: "stream", Rule: grammar.Bool{}},
	{Name: "store", Rule: grammar.Bool{}},
	{Name: "background", Rule: grammar.Bool{}},
	{Name: "parallel_tool_calls", Rule: grammar.Bool{}},
	{Name: "tools", Rule: anArray},
	{Name: "include", Rule: anArray},
	{Name: "context_management", Rule: anArray},
	{Name: "tool_choice", Rule: stringOrObject},
	{Name: "conversation", Rule: stringOrObject},
	{Name: "text", Rule: grammar.Object{}},
	{Name: "reasoning", Rule: grammar.Object{}},
	{Name: "metadata", Rule: grammar.Object{}},
	{Name: "client_metadata", Rule: grammar.Object{}},
	{Name: "prompt", Rule: grammar.Object{}},
	{Name: "stream_options", Rule: grammar.Object{}},
	{Name: "previous_response_id", Rule: grammar.Text{}},
	{Name: "prompt_cache_key", Rule: grammar.Text{}},
	{Name: "safety_identifier", Rule: grammar.Text{}},
	{Name: "service_tier", Rule: grammar.Text{}},
	{Name: "user", Rule: grammar.Text{}},
	{Name: "truncation", Rule: grammar.Func(truncation)},
})

// atLeast returns a rule for integers from least up to the largest that a
// float64 holds exactly.
func atLeast(least int64) grammar.Rule { return grammar.Integer{Min: least, Max: 1<<53 + 1} }

func truncation(v jsonedit.Value) *grammar.Fault {
	const want = `"auto" or "disabled"`
	word, ok := v.TextBytes()
	switch {
	case !ok:
		return grammar.WrongType(want, v.Raw())
	case string(word) != "auto" && string(word) != "disabled":
		return &grammar.Fault{Code: grammar.CodeValue, Want: want, Sent: grammar.Describe(v.Raw())}
	}
	return nil
}

// Check validates the top level of a request body. The error names the
// parameter and contains no content.
func (Dialect) Check(op api.Operation, d *jsonedit.Doc) *apierr.Error {
	if op != api.Responses {
		return nil
	}
	f := modelRule.Check(d)
	if f == nil {
		f = body.Check(d)
	}
	return f.Error(" ")
}

// Defaults returns nil: null is the same as absent.
func (Dialect) Defaults(api.Operation, *jsonedit.Doc) []jsonedit.Edit { return nil }
