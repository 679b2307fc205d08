package converse

import (
	"math"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/format/grammar"
	"modelgate/internal/format/jsonedit"
)

// Check validates a request body of the converse routes; other operations have
// no rules here. It rejects only what the protocol rejects for every target.
// Messages may be missing: a prompt stored at the provider can replace them.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
func (Dialect) Check(op api.Operation, d *jsonedit.Doc) *apierr.Error {
	if op != api.Converse {
		return nil
	}
	return body.CheckInOrder(d).WithoutSent().Error(": ")
}

// Defaults returns nil: null is the same as absent.
func (Dialect) Defaults(api.Operation, *jsonedit.Doc) []jsonedit.Edit { return nil }

var (
	blocks     = grammar.List{Each: grammar.Object{}}
	unitNumber = grammar.Number{Min: 0, Max: 1, Kind: "a number", Bound: "between 0 and 1"}

	body = grammar.NewBody([]grammar.Member{
		{Name: "messages", Rule: grammar.List{Each: message{}}},
		{Name: "system", Rule: blocks},
		{Name: "inferenceConfig", Rule: grammar.Object{Members: []grammar.Member{
			{Name: "maxTokens", Rule: grammar.Integer{Min: 1, Max: math.MaxInt64, Kind: "an integer", Bound: "at least 1"}},
			{Name: "temperature", Rule: unitNumber},
			{Name: "topP", Rule: unitNumber},
			{Name: "stopSequences", Rule: grammar.List{Each: grammar.Func(checkStop)}},
		}}},
		{Name: "toolConfig", Rule: grammar.Object{Members: []grammar.Member{
			{Name: "tools", Rule: blocks},
			{Name: "toolChoice", Rule: grammar.Object{}},
		}}},
		{Name: "guardrailConfig", Rule: grammar.Object{}},
		{Name: "promptVariables", Rule: grammar.Object{}},
		{Name: "requestMetadata", Rule: grammar.Object{}},
		{Name: "performanceConfig", Rule: grammar.Object{}},
		{Name: "serviceTier", Rule: grammar.Object{}},
		{Name: "outputConfig", Rule: grammar.Object{}},
	})
)

// message is an object with role and content. Null is not a message, and a null
// member counts as missing.
type message struct{}

const roleForms = "user or assistant"

var messageMembers = grammar.Object{Members: []grammar.Member{
	{Name: "role", Rule: grammar.Func(checkRole)},
	{Name: "content", Rule: blocks},
}}

func (message) Expected() string { return messageMembers.Expected() }

func (message) Check(c *jsonedit.Cursor) *grammar.Fault {
	from := *c
	v := from.Value()
	if !v.IsNull() {
		if f := messageMembers.Check(c); f != nil {
			return f
		}
	}
	if role, _ := v.Get("role"); role.IsNull() {
		return &grammar.Fault{Path: "role", Code: grammar.CodeMissing, Want: roleForms}
	}
	if content, _ := v.Get("content"); content.IsNull() {
		return &grammar.Fault{Path: "content", Code: grammar.CodeMissing, Want: "an array of content blocks"}
	}
	return nil
}

func checkRole(v jsonedit.Value) *grammar.Fault {
	word, ok := v.TextBytes()
	switch {
	case !ok:
		return grammar.WrongType("a string", v.Raw())
	case string(word) != "user" && string(word) != "assistant":
		return &grammar.Fault{Code: grammar.CodeValue, Want: roleForms}
	}
	return nil
}

func checkStop(v jsonedit.Value) *grammar.Fault {
	if v.Kind() != jsonedit.String && !v.IsNull() {
		return grammar.WrongType("a string", v.Raw())
	}
	return nil
}
