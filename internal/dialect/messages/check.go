package messages

import (
	"strconv"

	"modelgate/api"
	"modelgate/internal/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
)

// Check validates what the protocol demands of the parameters, and the outline
// of the messages; blocks are left to [Dialect.DecodeRequest] and to providers of
// the dialect. Parameters it does not know pass.
func (Dialect) Check(op api.Operation, d *jsonedit.Doc) *apierr.Error {
	if op != api.Messages && op != api.CountTokens {
		return nil
	}
	return checkRules(d, func(name string) bool { return name != "max_tokens" || op == api.Messages })
}

// checkRules checks the parameters by the rules; needed tells which of those
// that the protocol requires must be there.
func checkRules(d *jsonedit.Doc, needed func(name string) bool) *apierr.Error {
	var r reader
	for _, p := range rules {
		v, _ := d.Find(p.name)
		switch {
		case !v.IsNull():
			p.check(&r, p.name, v)
		case p.required && needed(p.name):
			r.missing(p.name, p.want)
		}
		if r.err != nil {
			return r.err
		}
	}
	return nil
}

// rule is what a parameter must be.
type rule struct {
	name     string
	check    func(r *reader, path string, v jsonedit.Value)
	required bool
	want     string // of a required one
}

// rules are checked in this order.
var rules = []rule{
	{"model", checkModel, true, "the name of a model"},
	{"messages", checkMessages, true, "an array of messages"},
	{"max_tokens", atLeast(0), true, "how many tokens the answer may have at most"},
	{"system", checkContent, false, ""},
	{"temperature", between(0, 1), false, ""},
	{"top_p", between(0, 1), false, ""},
	{"top_k", atLeast(0), false, ""},
	{"stop_sequences", checkTexts, false, ""},
	{"stream", checkBool, false, ""},
	{"metadata", checkObject, false, ""},
	{"service_tier", checkText, false, ""},
	{"thinking", checkThinking, false, ""},
	{"tools", checkTools, false, ""},
	{"tool_choice", checkTyped, false, ""},
}

func checkModel(r *reader, path string, v jsonedit.Value) {
	if text, ok := v.TextBytes(); ok && len(text) == 0 {
		r.refuse(path, dialect.CodeValue, "must not be empty")
	} else if !ok {
		r.wrong(path, "a string", v)
	}
}

// checkMessages looks at the role and the kind of content of each message.
func checkMessages(r *reader, path string, v jsonedit.Value) {
	if !r.list(path, v) {
		return
	}
	i := 0
	for e := range v.Elements() {
		if checkMessage(r, path, i, e); r.err != nil {
			return
		}
		i++
	}
	if i == 0 {
		r.refuse(path, dialect.CodeValue, "must have at least one message")
	}
}

func checkMessage(r *reader, list string, i int, v jsonedit.Value) {
	if v.Kind() != jsonedit.Object {
		r.wrong(at(list, i), "an object", v)
		return
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
	word, ok := role.TextBytes()
	_, known := roles[string(word)]
	kind := content.Kind()
	if known && (kind == jsonedit.String || kind == jsonedit.Array) {
		return
	}
	path := at(list, i)
	switch {
	case role.IsNull():
		r.missing(path+".role", `"user" or "assistant"`)
	case !ok:
		r.wrong(path+".role", "a string", role)
	case !known:
		r.refuse(path+".role", dialect.CodeValue, `must be "user", "assistant" or "system"`)
	default:
		checkContent(r, path+".content", content)
	}
}

func checkContent(r *reader, path string, v jsonedit.Value) {
	switch v.Kind() {
	case jsonedit.String, jsonedit.Array:
	case jsonedit.Null:
		r.missing(path, "a string or an array of blocks")
	default:
		r.wrong(path, "a string or an array of blocks", v)
	}
}

// between checks a number, both bounds included.
func between(least, most float64) func(*reader, string, jsonedit.Value) {
	return func(r *reader, path string, v jsonedit.Value) {
		f := *r.number(path, v)
		if f < least || f > most {
			r.refuse(path, dialect.CodeValue, "must be a number from %g to %g, not %s", least, most, describe(v))
		}
	}
}

func atLeast(least int64) func(*reader, string, jsonedit.Value) {
	return func(r *reader, path string, v jsonedit.Value) {
		if n := *r.integer(path, v); n < least {
			r.refuse(path, dialect.CodeValue, "must be at least %s", strconv.FormatInt(least, 10))
		}
	}
}

func checkText(r *reader, path string, v jsonedit.Value) {
	if v.Kind() != jsonedit.String {
		r.wrong(path, "a string", v)
	}
}

func checkTexts(r *reader, path string, v jsonedit.Value) {
	if !r.list(path, v) {
		return
	}
	i := 0
	for e := range v.Elements() {
		checkText(r, at(path, i), e)
		i++
	}
}

func checkBool(r *reader, path string, v jsonedit.Value) { r.boolean(path, v) }

func checkObject(r *reader, path string, v jsonedit.Value) {
	if v.Kind() != jsonedit.Object {
		r.wrong(path, "an object", v)
	}
}

// checkTyped checks an object with a type.
func checkTyped(r *reader, path string, v jsonedit.Value) {
	r.need(path+".type", r.object(path, v).get("type"))
}

func checkThinking(r *reader, path string, v jsonedit.Value) {
	f := r.object(path, v)
	switch kind := r.need(path+".type", f.get("type")); kind {
	case "enabled":
		if budget := f.get("budget_tokens"); !budget.IsNull() {
			r.integer(path+".budget_tokens", budget)
		}
	case "adaptive", "disabled":
	default:
		r.refuse(path+".type", dialect.CodeValue, `must be "enabled", "adaptive" or "disabled"`)
	}
}

func checkTools(r *reader, path string, v jsonedit.Value) {
	if !r.list(path, v) {
		return
	}
	i := 0
	for e := range v.Elements() {
		if e.Kind() != jsonedit.Object {
			r.wrong(at(path, i), "an object", e)
		}
		i++
	}
}
