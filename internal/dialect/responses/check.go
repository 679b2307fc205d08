package responses

import (
	"fmt"
	"strconv"
	"strings"

	"modelgate/api"
	"modelgate/internal/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
)

// rule says what a top-level parameter must be. Null passes everywhere: official
// clients send it for what was not set.
type rule struct {
	kinds    []jsonedit.Kind
	want     string // completes "must be …"
	integer  bool
	min, max float64 // both included, where max is above min
	words    []string
}

var (
	aString  = rule{kinds: []jsonedit.Kind{jsonedit.String}, want: "a string"}
	aBool    = rule{kinds: []jsonedit.Kind{jsonedit.Bool}, want: "true or false"}
	anObject = rule{kinds: []jsonedit.Kind{jsonedit.Object}, want: "an object"}
	anArray  = rule{kinds: []jsonedit.Kind{jsonedit.Array}, want: "an array"}
)

// rules are those of the parameters whose form is settled. Others pass: the
// protocol grows faster than gateways do.
var rules = map[string]rule{
	"input":                {kinds: []jsonedit.Kind{jsonedit.String, jsonedit.Array}, want: "a string or an array of items"},
	"instructions":         aString,
	"max_output_tokens":    number(1, 1<<53, true),
	"max_tool_calls":       number(0, 1<<53, true),
	"temperature":          number(0, 2, false),
	"top_p":                number(0, 1, false),
	"top_logprobs":         number(0, 20, true),
	"stream":               aBool,
	"store":                aBool,
	"background":           aBool,
	"parallel_tool_calls":  aBool,
	"tools":                anArray,
	"include":              anArray,
	"context_management":   anArray,
	"tool_choice":          {kinds: []jsonedit.Kind{jsonedit.String, jsonedit.Object}, want: "a string or an object"},
	"conversation":         {kinds: []jsonedit.Kind{jsonedit.String, jsonedit.Object}, want: "a string or an object"},
	"text":                 anObject,
	"reasoning":            anObject,
	"metadata":             anObject,
	"client_metadata":      anObject,
	"prompt":               anObject,
	"stream_options":       anObject,
	"previous_response_id": aString,
	"prompt_cache_key":     aString,
	"safety_identifier":    aString,
	"service_tier":         aString,
	"user":                 aString,
	"truncation":           {kinds: []jsonedit.Kind{jsonedit.String}, words: []string{"auto", "disabled"}, want: `"auto" or "disabled"`},
}

func number(low, high float64, integer bool) rule {
	r := rule{kinds: []jsonedit.Kind{jsonedit.Number}, min: low, max: high, integer: integer}
	switch {
	case integer && high == 1<<53:
		r.want = fmt.Sprintf("an integer of at least %g", low)
	case integer:
		r.want = fmt.Sprintf("an integer from %g to %g", low, high)
	default:
		r.want = fmt.Sprintf("a number from %g to %g", low, high)
	}
	return r
}

// Check validates the top level of a request body. The error names the
// parameter, and never repeats content.
func (Dialect) Check(op api.Operation, d *jsonedit.Doc) *apierr.Error {
	if op != api.Responses {
		return nil
	}
	if v, ok := d.Find("model"); !ok || v.IsNull() {
		return required("model", "a string")
	} else if v.Kind() != jsonedit.String {
		return refused("model", dialect.CodeType, "a string", v)
	}
	if err := checkInput(d); err != nil {
		return err
	}
	for key, v := range d.Members() {
		if r, ok := rules[key.String()]; ok && !v.IsNull() {
			if err := r.check(key.String(), v); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkInput wants an input unless what the provider keeps stands in for it.
func checkInput(d *jsonedit.Doc) *apierr.Error {
	for _, name := range [...]string{"input", "prompt", "previous_response_id", "conversation"} {
		if v, ok := d.Find(name); ok && !v.IsNull() {
			return nil
		}
	}
	return required("input", "a string or an array of items")
}

func (r rule) check(name string, v jsonedit.Value) *apierr.Error {
	if !hasKind(r.kinds, v.Kind()) {
		return refused(name, dialect.CodeType, r.want, v)
	}
	if r.max > r.min {
		if _, whole := v.Int(); r.integer && !whole && strings.ContainsAny(string(v.Raw()), ".eE") {
			return refused(name, dialect.CodeType, r.want, v)
		}
		if f, ok := v.Float(); !ok || f < r.min || f > r.max {
			return refused(name, dialect.CodeValue, r.want, v)
		}
	}
	if r.words != nil {
		text, _ := v.Text()
		for _, w := range r.words {
			if w == text {
				return nil
			}
		}
		return refused(name, dialect.CodeValue, r.want, v)
	}
	return nil
}

func hasKind(kinds []jsonedit.Kind, k jsonedit.Kind) bool {
	for _, want := range kinds {
		if want == k {
			return true
		}
	}
	return false
}

func required(name, want string) *apierr.Error {
	return apierr.New(apierr.Invalid, "%s is required: send %s", name, want).WithParam(name).WithCode(dialect.CodeMissing)
}

func refused(name, code, want string, v jsonedit.Value) *apierr.Error {
	return apierr.New(apierr.Invalid, "%s must be %s, not %s", name, want, describe(v)).WithParam(name).WithCode(code)
}

// describe says what v is. Numbers and literals are repeated when short; what
// may be content is named by its kind alone.
func describe(v jsonedit.Value) string {
	switch v.Kind() {
	case jsonedit.String:
		return "a string"
	case jsonedit.Array:
		return "an array"
	case jsonedit.Object:
		return "an object"
	}
	raw := v.Raw()
	if len(raw) > 32 {
		return "a number of " + strconv.Itoa(len(raw)) + " characters"
	}
	return string(raw)
}

// Defaults returns nil: a null stands for what the protocol does without it.
func (Dialect) Defaults(api.Operation, *jsonedit.Doc) []jsonedit.Edit { return nil }
