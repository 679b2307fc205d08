package gemini

import (
	"math"
	"strconv"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// requestDecoder reads one request of a client. It must not be used after the
// first error.
type requestDecoder struct {
	dialect.Reader
	r *llm.Request

	calls  []pendingCall    // of the conversation so far
	byID   map[string]int   // index of the last call with an id
	byName map[string][]int // calls of a name that have no result yet
}

// pendingCall is a call that a later result may refer to.
type pendingCall struct {
	id, name  string
	hasResult bool
}

// DecodeRequest reads a client's request. The model and streaming are set in
// its path.
func (Dialect) DecodeRequest(body []byte) (*llm.Request, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return nil, apierr.New(apierr.Invalid, "the body must be a JSON object: %v", err).WithCode(dialect.CodeType)
	}
	d := &requestDecoder{r: &llm.Request{Dialect: own, Names: names}, byID: map[string]int{}, byName: map[string][]int{}}
	d.body(v)
	d.r.Unknown = d.Unknown
	if d.Err != nil {
		return nil, d.Err
	}
	return d.r, nil
}

func (d *requestDecoder) body(v jsonedit.Value) {
	if !d.Is("body", v, jsonedit.Object, "an object") {
		return
	}
	// The system instruction comes first in the conversation, wherever it is in
	// the body.
	if system := field(v, "systemInstruction"); !system.IsNull() {
		d.system(system)
	}
	for key, v := range v.Fields() {
		if v.IsNull() {
			continue
		}
		switch name := camel(key); name {
		case "systemInstruction":
		case "model":
			d.r.Model = d.Text("model", v)
		case "contents":
			each(v, "contents", d.content)
		case "generationConfig":
			d.config(v)
		case "tools":
			each(v, "tools", d.tool)
		case "toolConfig":
			d.toolConfig(v)
		case "labels":
			if d.Is("labels", v, jsonedit.Object, "an object of strings") {
				d.r.Metadata = v.Raw()
			}
		case "serviceTier":
			d.r.ServiceTier = neutralTier(d.Text("serviceTier", v))
		default:
			d.extra(key.String(), v)
		}
		if d.Err != nil {
			return
		}
	}
}

// extra keeps a parameter that only this dialect has.
func (d *requestDecoder) extra(name string, v jsonedit.Value) {
	d.r.Extra = append(d.r.Extra, llm.Member{Name: name, Value: v.Raw()})
}

// each calls f with the elements of a list, or with a single value in place of
// a list: readers of protobuf's JSON accept it, and clients send it.
func each(v jsonedit.Value, path string, f func(jsonedit.Value, string)) {
	if v.Kind() != jsonedit.Array {
		f(v, path)
		return
	}
	n := 0
	for e := range v.Elements() {
		f(e, dialect.At(path, n))
		n++
	}
}

// float reads a number, which may be written as a string.
func (d *requestDecoder) float(path string, v jsonedit.Value) *float64 {
	f, ok := v.Float()
	if s, isText := v.Text(); isText {
		n, err := strconv.ParseFloat(s, 64)
		f, ok = n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
	}
	if !ok {
		d.RefuseKind(path, "a number", v)
		return nil
	}
	return &f
}

// int reads an integer, which may be written as a string or with a fraction
// of zero.
func (d *requestDecoder) int(path string, v jsonedit.Value) *int64 {
	n, ok := v.Int()
	if s, isText := v.Text(); isText {
		parsed, err := strconv.ParseInt(s, 10, 64)
		n, ok = parsed, err == nil
	}
	if f, isNumber := v.Float(); !ok && isNumber && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		n, ok = int64(f), true
	}
	if !ok {
		d.RefuseKind(path, "an integer", v)
		return nil
	}
	return &n
}

// neutralTier returns the name of a service tier that the other dialects use.
func neutralTier(tier string) string {
	if tier == "standard" {
		return "default"
	}
	return tier
}
