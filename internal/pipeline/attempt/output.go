package attempt

import (
	"bytes"
	"iter"
	"math"
	"strconv"
	"strings"

	"modelgate/api"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/pipeline/exchange"
)

// place is where a body has a number.
type place struct{ name, inside string }

// outputFields are the fields of an API that decide how much its models write.
type outputFields struct {
	limits  []place // tokens of a response
	raises  []place // may raise limits, but not set them
	counts  []place // responses
	prompts bool    // each prompt in a list gets its own responses
}

// fieldsOf are the fields of APIs. Operations that are not listed read none of them.
var fieldsOf = map[api.Operation]outputFields{
	api.Chat:        {limits: []place{{"max_completion_tokens", ""}, {"max_tokens", ""}}, counts: []place{{"n", ""}}},
	api.Completions: {limits: []place{{"max_tokens", ""}}, counts: []place{{"n", ""}, {"best_of", ""}}, prompts: true},
	api.Images:      {counts: []place{{"n", ""}}},
	api.Messages:    {limits: []place{{"max_tokens", ""}}},
	api.Invoke:      {limits: []place{{"max_tokens", ""}}},
	api.Responses:   {limits: []place{{"max_output_tokens", ""}}},
	api.Generate: { // both spellings are accepted by Google's APIs
		limits: []place{{"generationConfig", "maxOutputTokens"}, {"generationConfig", "max_output_tokens"},
			{"generation_config", "maxOutputTokens"}, {"generation_config", "max_output_tokens"}},
		counts: []place{{"generationConfig", "candidateCount"}, {"generationConfig", "candidate_count"},
			{"generation_config", "candidateCount"}, {"generation_config", "candidate_count"}},
	},
	api.Converse:   {limits: []place{{"inferenceConfig", "maxTokens"}}, raises: []place{{"additionalModelRequestFields", "max_tokens"}}},
	api.CohereChat: {limits: []place{{"max_tokens", ""}}},
	api.OllamaChat: {limits: []place{{"options", "num_predict"}}},
	api.OracleChat: {limits: []place{{"chatRequest", "maxTokens"}, {"chatRequest", "maxCompletionTokens"}}},
	api.Prediction: {limits: []place{{"input", "max_tokens"}, {"input", "max_completion_tokens"}},
		raises: []place{{"input", "max_new_tokens"}}},
}

// unknownFields are the fields of an API that the gateway does not know: every field that
// raises the output in another does, and none limits it.
var unknownFields = func() (all outputFields) {
	for _, f := range fieldsOf {
		all.raises = append(append(all.raises, f.limits...), f.raises...)
		all.counts = append(all.counts, f.counts...)
	}
	all.prompts = true
	return all
}()

// knownPaths are the ends of paths of pass-through requests whose API is known.
var knownPaths = []struct {
	end string
	op  api.Operation
}{
	{"/chat/completions", api.Chat}, {"/completions", api.Completions}, {"/messages", api.Messages}, {"/responses", api.Responses},
	{":generateContent", api.Generate}, {":streamGenerateContent", api.Generate}, {"/converse", api.Converse},
	{"/converse-stream", api.Converse},
	{"/v2/chat", api.CohereChat}, {"/api/chat", api.OllamaChat}, {"/api/generate", api.OllamaChat},
}

// outputFieldsOf returns the fields that the API of a request reads: of an operation, or of
// a path that passes through.
func outputFieldsOf(r *exchange.Request, op api.Operation) outputFields {
	if op != api.Proxy {
		return fieldsOf[op]
	}
	for _, known := range knownPaths {
		if strings.HasSuffix(r.Received.Path, known.end) {
			return fieldsOf[known.op]
		}
	}
	return unknownFields
}

// sentFields returns the fields that the API of the target reads in the body that is sent.
func (p *plan) sentFields() outputFields {
	if p.hasOwnFormat() { // whose fields are unknown, but not how often it is asked
		f := fieldsOf[p.request.Operation]
		return outputFields{raises: append(f.limits[:len(f.limits):len(f.limits)], f.raises...), counts: f.counts, prompts: f.prompts}
	}
	op := api.Operation(strings.TrimSuffix(string(p.wire.op), string(api.Operation("").Streamed())))
	if op == "" { // the gateway responds itself
		op = p.request.Operation
	}
	return outputFieldsOf(p.request, op)
}

// hasOwnFormat reports whether the body of an operation other than a conversation is sent
// in a format of the provider's own.
func (p *plan) hasOwnFormat() bool {
	o, ok := p.wire.translator.(*operation)
	return ok && o.provider != nil
}

// limit returns the largest limit of output tokens that a body sets: which of several a
// provider respects is unknown. It returns false if a provider may respect none of them.
func (f outputFields) limit(doc *jsonedit.Doc) (n int64, known bool) {
	valid := true
	read := func(v jsonedit.Value) {
		x := numberOf(v)
		valid = valid && x > 0
		n = max(n, min(x, maxOutputLimit))
	}
	for v, exact := range valuesAt(doc, f.limits) {
		read(v)
		known = known || exact
	}
	for v := range valuesAt(doc, f.raises) {
		read(v)
	}
	return n, known && valid
}

// responses returns the number of responses that a body asks for.
func (f outputFields) responses(doc *jsonedit.Doc) int64 {
	n := int64(1)
	for v := range valuesAt(doc, f.counts) {
		n = max(n, min(numberOf(v), maxResponses))
	}
	return n
}

// promptsIn returns the number of prompts in a body, each of which gets its own responses:
// the elements of a list of strings or of lists of tokens.
func (f outputFields) promptsIn(doc *jsonedit.Doc) (n int64) {
	if !f.prompts || doc == nil {
		return 1
	}
	v, _ := doc.Find("prompt")
	for e := range v.Elements() {
		if e.Kind() == jsonedit.Number { // one prompt of tokens
			return 1
		}
		n++
	}
	return min(max(n, 1), maxPrompts)
}

// Bounds of what a body may claim, so that products do not overflow.
const (
	maxOutputLimit = 1 << 32
	maxResponses   = 128 // Limits of the specification
	maxPrompts     = 1 << 20
	maxOutput      = maxOutputLimit * maxResponses // of a request
)

// valuesAt returns the values at places in a body, and whether their names are spelt
// exactly so: some readers compare names without case.
func valuesAt(doc *jsonedit.Doc, places []place) iter.Seq2[jsonedit.Value, bool] {
	return func(yield func(jsonedit.Value, bool) bool) {
		if doc == nil || len(places) == 0 {
			return
		}
		for key, v := range doc.Members() {
			for _, p := range places {
				if foldsTo(key, p.name) && !p.yieldValues(v, key.Is(p.name), yield) {
					return
				}
			}
		}
	}
}

// yieldValues yields the values at the place in v, a member of its name. It returns false once
// yield has.
func (p place) yieldValues(v jsonedit.Value, exact bool, yield func(jsonedit.Value, bool) bool) bool {
	if p.inside == "" {
		return v.IsNull() || yield(v, exact)
	}
	for key, inner := range v.Fields() {
		if foldsTo(key, p.inside) && !inner.IsNull() && !yield(inner, exact && key.Is(p.inside)) {
			return false
		}
	}
	return true
}

// foldsTo reports whether a key is name in any case.
func foldsTo(key jsonedit.Key, name string) bool {
	raw := key.Raw()
	if first := raw[1] | 0x20; first >= 'a' && first <= 'z' && first != name[0]|0x20 {
		return false
	}
	if bytes.IndexByte(raw, '\\') >= 0 {
		return strings.EqualFold(key.String(), name)
	}
	return strings.EqualFold(string(raw[1:len(raw)-1]), name)
}

// numberOf returns a number as readers accept it: with a fraction or an exponent, rounded
// up, or in a string. It is zero if they accept none.
func numberOf(v jsonedit.Value) int64 {
	if n, ok := v.Int(); ok {
		return n
	}
	f, ok := v.Float()
	if text, quoted := v.Text(); quoted {
		parsed, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		f, ok = parsed, err == nil && !math.IsNaN(parsed)
	}
	if !ok || f <= 0 {
		return 0
	}
	return int64(math.Ceil(min(f, maxOutput)))
}
