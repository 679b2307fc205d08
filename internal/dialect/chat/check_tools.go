package chat

import (
	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/format/grammar"
	"modelgate/internal/format/jsonedit"
)

var (
	// message is the rule common to all messages: content and the other members
	// differ between roles, models and providers.
	message = grammar.Object{Members: []grammar.Member{{Name: "role", Rule: grammar.Text{}, Required: true}}, What: "a message object"}

	named = grammar.Object{Members: []grammar.Member{{Name: "name", Rule: grammar.Text{}, Required: true}}}

	// thinking may lack a type, since some providers have a default. The type
	// auto is a value of BytePlus and Volcengine.
	thinking = grammar.Object{Members: []grammar.Member{
		{Name: "type", Rule: grammar.Words{"enabled", "adaptive", "disabled", "auto"}},
		{Name: "budget_tokens", Rule: grammar.AnyInteger},
	}}

	functionCall = grammar.ByKind{
		What:   `"none", "auto" or an object with the name of a function`,
		Text:   grammar.Words{"none", "auto"},
		Object: named,
	}

	// toolChoice also allows "any", which clients of another vendor send for
	// "required".
	toolChoice = grammar.ByKind{
		What:   `"none", "auto", "required" or an object that names a function`,
		Text:   grammar.Words{"none", "auto", "required", "any"},
		Object: tool{mustName: true},
	}
)

// tool is an object with a type and, if the type is function or missing, with
// function.name. Tools of other types are checked by the provider.
type tool struct {
	mustName bool // reject an object with neither type nor function
}

func (tool) Expected() string { return "an object with a type" }

func (r tool) Check(c *jsonedit.Cursor) *grammar.Fault {
	if !c.Enter('{') {
		return grammar.WrongType(r.Expected(), c.Raw())
	}
	var typ []byte
	var function *grammar.Fault
	found := false
	for key, ok := c.Field(); ok; key, ok = c.Field() {
		switch string(key) {
		case "type":
			typ = c.Raw()
		case "function":
			found = c.Peek() != 'n'
			function = r.function(c)
		default:
			c.Skip()
		}
	}
	switch k := jsonedit.KindOf(typ); {
	case k != jsonedit.String && k != jsonedit.Null:
		return grammar.WrongType(grammar.Text{}.Expected(), typ).In("type")
	case k == jsonedit.String && string(typ) != `"function"`:
		return nil
	case !found && k == jsonedit.Null && !r.mustName:
		return nil
	case !found:
		return &grammar.Fault{Path: "function", Code: grammar.CodeMissing, Want: "an object with the function's name"}
	}
	return function
}

// function checks the function of a tool and consumes it, also after a fault.
func (tool) function(c *jsonedit.Cursor) *grammar.Fault {
	before := *c
	if c.Peek() == 'n' {
		c.Skip()
		return nil
	}
	f := named.Check(c)
	if f == nil {
		return nil
	}
	*c = before
	c.Skip()
	return f.In("function")
}

// CheckFunctionTools returns an error for a tool of a type other than function.
// It is for targets of the chat dialect with strict compliance; other targets
// receive every tool unchanged.
func CheckFunctionTools(op api.Operation, d *jsonedit.Doc) *apierr.Error {
	v, ok := d.Find("tools")
	if op != api.Chat || !ok || v.Kind() != jsonedit.Array {
		return nil
	}
	i := 0
	for t := range v.Elements() {
		typ, ok := t.Get("type")
		if word, isText := typ.TextBytes(); isText && string(word) != "function" || !ok && !has(t, "function") {
			f := &grammar.Fault{Path: "type", Code: grammar.CodeValue, Want: `"function" for this target`, Sent: grammar.DescribeWord(typ.Raw())}
			if !ok {
				f.Sent = "left out"
			}
			return f.At(i).In("tools").Error(" ")
		}
		i++
	}
	return nil
}

func has(v jsonedit.Value, name string) bool {
	_, ok := v.Get(name)
	return ok
}
