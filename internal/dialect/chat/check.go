package chat

import (
	"strconv"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/format/grammar"
	"modelgate/internal/format/jsonedit"
)

// Check validates a request body of the unified route of op. Operations without
// rules pass. The error names the element, for example
// "tools[3].function.name", and the rule, and does not contain content of the
// body.
func (Dialect) Check(op api.Operation, d *jsonedit.Doc) *apierr.Error {
	if body := bodyOf(op, d); body != nil {
		return body.Check(d).Error(" ")
	}
	return nil
}

// Defaults returns the edits that replace a null with the value that the
// specification gives it: the prompt of a text completion. It is nil if there
// are none.
func (Dialect) Defaults(op api.Operation, d *jsonedit.Doc) []jsonedit.Edit {
	if op != api.Completions {
		return nil
	}
	if v, ok := d.Find("prompt"); !ok || !v.IsNull() {
		return nil
	}
	return []jsonedit.Edit{{Name: "prompt", Value: []byte(`"<|endoftext|>"`)}}
}

// findParam returns a parameter that is set and not null.
func findParam(d *jsonedit.Doc, name string) (jsonedit.Value, bool) {
	v, ok := d.Find(name)
	return v, ok && !v.IsNull()
}

func isTrue(d *jsonedit.Doc, name string) bool {
	v, _ := d.Find(name)
	is, _ := v.Bool()
	return is
}

func needLogprobs(_ jsonedit.Value, d *jsonedit.Doc) *grammar.Fault {
	if isTrue(d, "logprobs") {
		return nil
	}
	return &grammar.Fault{Problem: "needs logprobs: send logprobs true, or leave top_logprobs out"}
}

// needStream refuses options of a stream that the request does not ask for, as OpenAI
// does. With stream false the provider decides: the test suites of OpenAI's own clients
// send both together. https://platform.openai.com/docs/api-reference/chat/create
func needStream(_ jsonedit.Value, d *jsonedit.Doc) *grammar.Fault {
	if _, sent := findParam(d, "stream"); sent {
		return nil
	}
	return &grammar.Fault{Problem: "is only for streams: send stream true, or leave stream_options out"}
}

// coverN compares best_of with n. Tests of official clients send 0 with an n of 1: 0
// counts as 1, which is the default.
func coverN(bestOf jsonedit.Value, d *jsonedit.Doc) *grammar.Fault {
	v, ok := findParam(d, "n")
	if !ok {
		return nil
	}
	best, _ := bestOf.Int()
	if n, _ := v.Int(); max(best, 1) < n {
		return &grammar.Fault{Want: "at least n, which is " + strconv.FormatInt(n, 10), Sent: strconv.FormatInt(best, 10)}
	}
	return nil
}

func notStreamed(bestOf jsonedit.Value, d *jsonedit.Doc) *grammar.Fault {
	if best, _ := bestOf.Int(); best > 1 && isTrue(d, "stream") {
		return &grammar.Fault{Problem: "above 1 can't be streamed: send stream false, or leave best_of out"}
	}
	return nil
}
