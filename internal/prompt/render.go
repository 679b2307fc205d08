package prompt

import (
	"slices"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
)

// Input is what a request brings to a version.
type Input struct {
	// Variables fill the template. One that is missing is empty.
	Variables map[string]string

	// Overrides are members of the body, which take the place of the version's.
	Overrides []jsonedit.Edit

	// Partial returns the template that a partial's reference means, as
	// [Cut] reads it.
	Partial func(ref string) (text string, ok bool)
}

// Rendered is a version that was filled.
type Rendered struct {
	Body     []byte // a JSON object
	Provider string // slug of a provider entry, without @; empty when the version names none
	Model    string // of the version; empty when it names none

	// Completes is true if the body has a string to complete instead of messages.
	Completes bool
}

// Render fills the template of v and returns the body of the request that it
// makes. An error is an *apierr.Error.
func Render(v *Version, in Input) (*Rendered, error) {
	c, err := Decode(v.Text)
	if err != nil {
		return nil, apierr.New(apierr.Internal, "a stored prompt is not readable").WithCause(err)
	}
	r := &run{variables: in.Variables, partial: in.Partial}
	b := jsonedit.Append(make([]byte, 0, len(v.Text)+len(v.Text)/4+256))
	b.Open('{')
	if c.Model != "" {
		b.Name("model")
		b.String(c.Model)
	}
	out := &Rendered{Provider: c.Provider, Model: c.Model}
	if out.Completes, err = r.template(&b, &c); err != nil {
		return nil, err
	}
	if err := r.writeSettings(&b, &c, out); err != nil {
		return nil, err
	}
	b.Close('}')
	var d jsonedit.Doc
	if err := d.Scan(b.Bytes()); err != nil {
		return nil, apierr.New(apierr.Invalid, "the prompt is not JSON with these variables: %v",
			err).WithParam("variables").WithCode("invalid_prompt")
	}
	out.Body = b.Bytes()
	if len(in.Overrides) > 0 {
		out.Body = d.Apply(nil, in.Overrides...)
	}
	return out, nil
}

// template writes the messages or the prompt.
func (r *run) template(b *jsonedit.Builder, c *Content) (completes bool, err error) {
	if c.Raw {
		text, err := r.all(c.String, true)
		if err != nil {
			return false, err
		}
		v, err := jsonedit.ParseValue(text)
		if err != nil || v.Kind() != jsonedit.Array {
			return false,
				apierr.New(apierr.Invalid,
					"with these variables, the prompt is not a JSON array of messages").WithParam("variables").WithCode("invalid_prompt")
		}
		b.Name("messages")
		b.Raw(v.Raw())
		return false, nil
	}
	if messages, ok := c.messages(); ok {
		b.Name("messages")
		return false, r.value(b, messages)
	}
	text, err := r.text(c.String)
	if err != nil {
		return false, err
	}
	b.Name("prompt")
	b.String(text)
	return true, nil
}

// writeSettings writes the further members. Those that are in a field of their own
// win over parameters of their name.
func (r *run) writeSettings(b *jsonedit.Builder, c *Content, out *Rendered) error {
	skip := slices.Clip(fixed)
	if c.Model != "" {
		skip = append(skip, "model")
	}
	for _, m := range c.settings()[1:] {
		if isNull(m.raw) {
			continue
		}
		skip = append(skip, m.name)
		v, err := jsonedit.ParseValue(m.raw)
		if err != nil {
			return apierr.New(apierr.Internal, "a stored prompt is not readable").WithCause(err)
		}
		b.Name(m.name)
		if err := r.value(b, v); err != nil {
			return err
		}
	}
	if isNull(c.Parameters) {
		return nil
	}
	return r.writeParameters(b, c, out, skip)
}

// writeParameters writes the members that are in no field of their own, except for
// those to skip.
func (r *run) writeParameters(b *jsonedit.Builder, c *Content, out *Rendered, skip []string) error {
	v, err := jsonedit.ParseValue(c.Parameters)
	if err != nil {
		return apierr.New(apierr.Internal, "a stored prompt is not readable").WithCause(err)
	}
	for key, v := range v.Fields() {
		name := key.String()
		if slices.Contains(skip, name) {
			continue
		}
		if name == "model" {
			out.Model, _ = v.Text()
		}
		b.Key(name)
		if err := r.value(b, v); err != nil {
			return err
		}
	}
	return nil
}

// value writes a value with the templates in its strings filled.
func (r *run) value(b *jsonedit.Builder, v jsonedit.Value) error {
	switch v.Kind() {
	case jsonedit.String:
		text, _ := v.Text()
		text, err := r.text(text)
		if err != nil {
			return err
		}
		b.String(text)
	case jsonedit.Array:
		b.Open('[')
		for e := range v.Elements() {
			if err := r.value(b, e); err != nil {
				return err
			}
		}
		b.Close(']')
	case jsonedit.Object:
		b.Open('{')
		for key, f := range v.Fields() {
			b.Key(key.String())
			if err := r.value(b, f); err != nil {
				return err
			}
		}
		b.Close('}')
	default:
		b.Raw(v.Raw())
	}
	return nil
}
