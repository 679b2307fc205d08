package chat

import (
	"bytes"
	"strconv"

	"modelgate/api"
	"modelgate/internal/apierr"
	"modelgate/internal/jsonedit"
)

// Check validates a request body of the unified route of op; operations without
// rules pass. The error names the element at fault, as in
// "tools[3].function.name", says the rule and what was sent, and never repeats
// content.
func (Dialect) Check(op api.Operation, d *jsonedit.Doc) *apierr.Error {
	r := routeOf(op)
	if r == nil {
		return nil
	}
	if f := r.forModel(d).check(d); f != nil {
		return f.error()
	}
	return nil
}

func (r *route) check(d *jsonedit.Doc) *fault {
	var c cursor
	var seen uint64
	for key, v := range d.Members() {
		i := r.find(name(key))
		if i < 0 {
			continue
		}
		seen |= 1 << i
		c = cursor{b: v.Raw()}
		if f := r.params[i].check(&c); f != nil {
			return f
		}
	}
	if f := missing(r.params, seen); f != nil {
		return f
	}
	for _, across := range r.across {
		if f := across.check(d); f != nil {
			return f
		}
	}
	return nil
}

// name is the text of a key, unescaped.
func name(k jsonedit.Key) []byte {
	raw := k.Raw()
	text := raw[1 : len(raw)-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		return []byte(k.String())
	}
	return text
}

// Defaults returns the edits that put in what the specification wants sent in
// place of a null: the prompt of a text completion. It is nil when there are
// none.
func (Dialect) Defaults(op api.Operation, d *jsonedit.Doc) []jsonedit.Edit {
	if op != api.Completions {
		return nil
	}
	if v, ok := d.Find("prompt"); !ok || !v.IsNull() {
		return nil
	}
	return []jsonedit.Edit{{Name: "prompt", Value: []byte(`"<|endoftext|>"`)}}
}

// relation is a rule between a parameter, where it is sent, and others. Each is
// well by itself.
type relation struct {
	of   string
	rule func(of jsonedit.Value, d *jsonedit.Doc) *fault
}

func (r relation) check(d *jsonedit.Doc) *fault {
	v, ok := findParam(d, r.of)
	if !ok {
		return nil
	}
	f := r.rule(v, d)
	if f != nil {
		f.path, f.code = r.of, codeValue
	}
	return f
}

// findParam returns a parameter that is there and not null.
func findParam(d *jsonedit.Doc, name string) (jsonedit.Value, bool) {
	v, ok := d.Find(name)
	return v, ok && !v.IsNull()
}

func isTrue(d *jsonedit.Doc, name string) bool {
	v, _ := d.Find(name)
	is, _ := v.Bool()
	return is
}

func needLogprobs(_ jsonedit.Value, d *jsonedit.Doc) *fault {
	if isTrue(d, "logprobs") {
		return nil
	}
	return &fault{full: "top_logprobs needs logprobs: send logprobs true, or leave top_logprobs out"}
}

func needStream(_ jsonedit.Value, d *jsonedit.Doc) *fault {
	if isTrue(d, "stream") {
		return nil
	}
	return &fault{full: "stream_options is only for streams: send stream true, or leave stream_options out"}
}

func coverN(bestOf jsonedit.Value, d *jsonedit.Doc) *fault {
	v, ok := findParam(d, "n")
	if !ok {
		return nil
	}
	best, _ := bestOf.Int()
	if n, _ := v.Int(); best < n {
		return &fault{want: "at least n, which is " + strconv.FormatInt(n, 10), sent: strconv.FormatInt(best, 10)}
	}
	return nil
}

func notStreamed(bestOf jsonedit.Value, d *jsonedit.Doc) *fault {
	if best, _ := bestOf.Int(); best > 1 && isTrue(d, "stream") {
		return &fault{full: "best_of above 1 can't be streamed: send stream false, or leave best_of out"}
	}
	return nil
}
