package chat

import (
	"modelgate/api"
	"modelgate/internal/apierr"
	"modelgate/internal/jsonedit"
)

var (
	// message is what every message has, whatever its role: content and the rest
	// differ between roles, models and providers.
	message = object{members: []param{{name: "role", rule: text{}, required: true}}, what: "a message object"}

	named = object{members: []param{{name: "name", rule: text{}, required: true}}}

	// thinking takes a type that is left out, for some providers have a default,
	// and auto, which is a value of BytePlus and Volcengine.
	thinking = object{members: []param{
		{name: "type", rule: words{"enabled", "adaptive", "disabled", "auto"}},
		{name: "budget_tokens", rule: anyInteger},
	}}

	functionCall = byKind{
		what:   `"none", "auto" or an object with the name of a function`,
		text:   words{"none", "auto"},
		object: named,
	}

	// toolChoice takes "any" too, which a vendor's clients send for "required".
	toolChoice = byKind{
		what:   `"none", "auto", "required" or an object that names a function`,
		text:   words{"none", "auto", "required", "any"},
		object: tool{mustName: true},
	}
)

// tool is an object with a type and, when that is function or left out, with
// function.name. Tools of other types are the provider's business.
type tool struct {
	mustName bool // refuse an object with neither type nor function
}

func (tool) expected() string { return "an object with a type" }

func (r tool) check(c *cursor) *fault {
	if !c.enter('{') {
		return wrongType(c, r.expected())
	}
	var typ []byte
	var function *fault
	found := false
	for key, ok := c.field(); ok; key, ok = c.field() {
		switch string(key) {
		case "type":
			typ = c.raw()
		case "function":
			found = c.peek() != 'n'
			function = r.function(c)
		default:
			c.skip()
		}
	}
	switch k := kindOf(typ); {
	case k != kindText && k != kindNull:
		return (&fault{code: codeType, want: text{}.expected(), sent: describe(typ)}).in("type")
	case k == kindText && string(typ) != `"function"`:
		return nil
	case !found && k == kindNull && !r.mustName:
		return nil
	case !found:
		return &fault{path: "function", code: codeMissing, want: "an object with the function's name"}
	}
	return function
}

// function checks the function of a tool and takes it, even after a fault.
func (tool) function(c *cursor) *fault {
	c.peek()
	from := c.i
	if c.b[from] == 'n' {
		c.skip()
		return nil
	}
	f := named.check(c)
	if f == nil {
		return nil
	}
	c.i, c.bad = from, false
	c.skip()
	return f.in("function")
}

// CheckFunctionTools refuses tools of a type other than function. It is for targets
// that speak the chat dialect and are to be held to it strictly; all others are
// given every tool as it was sent.
func CheckFunctionTools(op api.Operation, d *jsonedit.Doc) *apierr.Error {
	v, ok := d.Find("tools")
	if op != api.Chat || !ok || v.Kind() != jsonedit.Array {
		return nil
	}
	i := 0
	for t := range v.Elements() {
		typ, ok := t.Get("type")
		if word, isText := typ.TextBytes(); isText && string(word) != "function" || !ok && !has(t, "function") {
			f := &fault{path: "type", code: codeValue, want: `"function" for this target`, sent: describeWord(typ.Raw())}
			if !ok {
				f.sent = "left out"
			}
			return f.at(i).in("tools").error()
		}
		i++
	}
	return nil
}

func has(v jsonedit.Value, name string) bool {
	_, ok := v.Get(name)
	return ok
}
