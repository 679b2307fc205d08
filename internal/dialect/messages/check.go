package messages

import (
	"math"
	"slices"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/format/grammar"
	"modelgate/internal/format/jsonedit"
)

// Check validates the parameters and the outline of the messages. Blocks are
// checked by [Dialect.DecodeRequest] and by providers of the dialect. Unknown
// parameters pass.
func (Dialect) Check(op api.Operation, d *jsonedit.Doc) *apierr.Error {
	switch op {
	case api.Messages:
		return messagesBody.CheckInOrder(d).Error(": ")
	case api.CountTokens:
		return countBody.CheckInOrder(d).Error(": ")
	}
	return nil
}

var (
	messagesBody = bodyWith("model", "messages", "max_tokens")
	countBody    = bodyWith("model", "messages")
	invokeBody   = bodyWith("messages", "max_tokens")
)

// bodyWith returns the rules for a body with the required parameters, checked
// in this order.
func bodyWith(required ...string) *grammar.Body {
	members := []grammar.Member{
		{Name: "model", Rule: grammar.Func(checkModel), Send: "the name of a model"},
		{Name: "messages", Rule: grammar.List{Each: grammar.Func(checkMessage), Empty: "must have at least one message"},
			Send: "an array of messages"},
		{Name: "max_tokens", Rule: count, Send: "maximum number of tokens of the response"},
		{Name: "system", Rule: grammar.ByKind{Text: grammar.Text{}, Array: grammar.List{}, What: contentForms}},
		{Name: "temperature", Rule: share},
		{Name: "top_p", Rule: share},
		{Name: "top_k", Rule: count},
		{Name: "stop_sequences", Rule: grammar.List{Each: grammar.Func(checkText)}},
		{Name: "stream", Rule: grammar.Bool{}},
		{Name: "metadata", Rule: grammar.Object{}},
		{Name: "service_tier", Rule: grammar.Text{}},
		{Name: "thinking", Rule: grammar.Func(checkThinking)},
		{Name: "tools", Rule: grammar.List{Each: grammar.Object{}}},
		{Name: "tool_choice", Rule: grammar.Func(checkType)},
	}
	for i := range members {
		members[i].Required = slices.Contains(required, members[i].Name)
	}
	return grammar.NewBody(members)
}

const contentForms = "a string or an array of blocks"

var (
	count = grammar.Integer{Min: 0, Max: math.MaxInt64, Kind: "an integer", Bound: "at least 0"}
	share = grammar.Number{Min: 0, Max: 1, Kind: "a number"}
)

func checkModel(v jsonedit.Value) *grammar.Fault {
	if string(v.Raw()) == `""` {
		return &grammar.Fault{Code: grammar.CodeValue, Problem: "must not be empty"}
	}
	return checkText(v)
}

func checkText(v jsonedit.Value) *grammar.Fault {
	if v.Kind() != jsonedit.String {
		return grammar.WrongType("a string", v.Raw())
	}
	return nil
}

// checkMessage checks the role and the kind of content of a message.
func checkMessage(v jsonedit.Value) *grammar.Fault {
	if v.Kind() != jsonedit.Object {
		return grammar.WrongType("an object", v.Raw())
	}
	var role, content jsonedit.Value
	for k, value := range v.Fields() {
		switch {
		case k.Is("role"):
			role = value
		case k.Is("content"):
			content = value
		}
	}
	if f := checkRole(role); f != nil {
		return f.In("role")
	}
	switch content.Kind() {
	case jsonedit.String, jsonedit.Array:
		return nil
	case jsonedit.Null:
		return &grammar.Fault{Path: "content", Code: grammar.CodeMissing, Want: contentForms}
	}
	return grammar.WrongType(contentForms, content.Raw()).In("content")
}

func checkRole(v jsonedit.Value) *grammar.Fault {
	if v.IsNull() {
		return &grammar.Fault{Code: grammar.CodeMissing, Want: `"user" or "assistant"`}
	}
	word, _ := v.TextBytes()
	if _, known := roles[string(word)]; known {
		return nil
	}
	if f := checkText(v); f != nil {
		return f
	}
	return &grammar.Fault{Code: grammar.CodeValue, Want: `"user", "assistant" or "system"`}
}

// checkType checks an object with a type.
func checkType(v jsonedit.Value) *grammar.Fault {
	if v.Kind() != jsonedit.Object {
		return grammar.WrongType("an object", v.Raw())
	}
	kind, _ := v.Get("type")
	if kind.IsNull() {
		return &grammar.Fault{Path: "type", Code: grammar.CodeMissing, Want: "a string"}
	}
	if f := checkText(kind); f != nil {
		return f.In("type")
	}
	return nil
}

func checkThinking(v jsonedit.Value) *grammar.Fault {
	if f := checkType(v); f != nil {
		return f
	}
	kind, _ := v.Get("type")
	switch word, _ := kind.TextBytes(); string(word) {
	case "enabled":
		budget, _ := v.Get("budget_tokens")
		if _, ok := budget.Int(); !ok && !budget.IsNull() {
			return grammar.WrongType("an integer", budget.Raw()).In("budget_tokens")
		}
	case "adaptive", "disabled":
	default:
		return &grammar.Fault{Path: "type", Code: grammar.CodeValue, Want: `"enabled", "adaptive" or "disabled"`}
	}
	return nil
}

// Defaults returns nil: null is the same as absent.
func (Dialect) Defaults(api.Operation, *jsonedit.Doc) []jsonedit.Edit { return nil }
