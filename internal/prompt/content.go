package prompt

import (
	"bytes"
	"encoding/json"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
)

// Content is what a version of a prompt holds. Text settings are templates
// wherever they stand: in messages, tools and parameters.
type Content struct {
	// String is the template: a JSON array of messages, or a string to complete.
	String string

	// Raw fills String as one text, which has to be a JSON array afterwards.
	// Otherwise the array is read first, and the strings in it are filled.
	Raw bool

	Model    string
	Provider string // slug of a provider entry, without @; empty leaves it to the request

	// Parameters is an object of further members of a request's body; the other
	// three are members of it that have a field of their own. Nil is none.
	Parameters json.RawMessage
	Functions  json.RawMessage // array
	Tools      json.RawMessage // array
	ToolChoice json.RawMessage
}

// The members of a stored content.
const (
	keyString     = "string"
	keyRaw        = "is_raw_template"
	keyModel      = "model"
	keyProvider   = "virtual_key"
	keyParameters = "parameters"
	keyFunctions  = "functions"
	keyTools      = "tools"
	keyToolChoice = "tool_choice"
)

// Encode returns c as it is stored.
func (c *Content) Encode() string {
	var b jsonedit.Builder
	b.Open('{')
	b.Name(keyString)
	b.String(c.String)
	if c.Raw {
		b.Name(keyRaw)
		b.Bool(true)
	}
	for _, m := range []struct{ name, text string }{{keyModel, c.Model}, {keyProvider, c.Provider}} {
		if m.text != "" {
			b.Name(m.name)
			b.String(m.text)
		}
	}
	for _, m := range c.settings() {
		if len(m.raw) > 0 {
			b.Name(m.name)
			b.Raw(m.raw)
		}
	}
	b.Close('}')
	return string(b.Bytes())
}

type setting struct {
	name string
	raw  json.RawMessage
}

// settings returns the parts of c that are JSON.
func (c *Content) settings() []setting {
	return []setting{{keyParameters, c.Parameters}, {keyFunctions, c.Functions}, {keyTools, c.Tools}, {keyToolChoice, c.ToolChoice}}
}

// Decode reads what Encode wrote. The slices are views of text's copy.
func Decode(text string) (Content, error) {
	var d jsonedit.Doc
	if err := d.Scan([]byte(text)); err != nil {
		return Content{}, err
	}
	var c Content
	c.read(&d)
	return c, nil
}

func (c *Content) read(d *jsonedit.Doc) {
	for key, v := range d.Members() {
		switch key.String() {
		case keyString:
			c.String, _ = v.Text()
		case keyRaw:
			c.Raw, _ = v.Bool()
		case keyModel:
			c.Model, _ = v.Text()
		case keyProvider:
			c.Provider, _ = v.Text()
		case keyParameters:
			c.Parameters = v.Raw()
		case keyFunctions:
			c.Functions = v.Raw()
		case keyTools:
			c.Tools = v.Raw()
		case keyToolChoice:
			c.ToolChoice = v.Raw()
		}
	}
}

// Check checks a content before it is stored, as far as that is possible without the
// values of variables. An error is an *apierr.Error that names the field.
func (c *Content) Check() error {
	if err := checkString(c); err != nil {
		return inField(err, keyString)
	}
	for _, m := range c.settings() {
		if len(m.raw) == 0 {
			continue
		}
		if err := checkSetting(m); err != nil {
			return inField(err, m.name)
		}
	}
	return nil
}

func inField(err error, field string) error {
	return apierr.New(apierr.Invalid, "%s: %s", field, apierr.From(err).Message).WithParam(field)
}

func checkString(c *Content) error {
	if c.Raw {
		_, err := parse(c.String)
		return err
	}
	messages, ok := c.messages()
	if !ok {
		if looksLikeMessages(c.String) {
			return apierr.New(apierr.Invalid,
				"begins like an array of messages but is not JSON; set is_raw_template to 1 for a template that is JSON only after its variables are filled in")
		}
		_, err := parse(c.String)
		return err
	}
	for m := range messages.Elements() {
		if m.Kind() != jsonedit.Object {
			return apierr.New(apierr.Invalid, "must be an array of messages, each an object")
		}
	}
	return checkStrings(messages)
}

// messages returns the template as an array of messages, and false for a string to
// complete.
func (c *Content) messages() (jsonedit.Value, bool) {
	if !strings.HasPrefix(strings.TrimLeft(c.String, " \t\r\n"), "[") {
		return jsonedit.Value{}, false
	}
	v, err := jsonedit.ParseValue([]byte(c.String))
	return v, err == nil
}

// looksLikeMessages reports whether a text begins with a bracket and an object that is not
// a tag.
func looksLikeMessages(text string) bool {
	rest, ok := strings.CutPrefix(strings.TrimLeft(text, " \t\r\n"), "[")
	rest = strings.TrimLeft(rest, " \t\r\n")
	return ok && strings.HasPrefix(rest, "{") && !strings.HasPrefix(rest, "{{")
}

// fixed are members of a body that no parameter gives: they are the template's
// or the request's.
var fixed = []string{"messages", "prompt", "variables", "stream", "stream_options"}

func checkSetting(m setting) error {
	if m.name != keyParameters {
		v, err := jsonedit.ParseValue(m.raw)
		if err != nil {
			return err
		}
		if want := v.Kind() == jsonedit.Array; m.name != keyToolChoice && !want {
			return apierr.New(apierr.Invalid, "must be an array")
		}
		return checkStrings(v)
	}
	var d jsonedit.Doc
	if err := d.Scan(m.raw); err != nil {
		return apierr.New(apierr.Invalid, "%v", err)
	}
	for key, v := range d.Members() {
		switch key.String() {
		case "messages", "prompt", "variables":
			return apierr.New(apierr.Invalid, "%q is not a parameter: it is set by the template or the request", key.String())
		}
		if err := checkStrings(v); err != nil {
			return err
		}
	}
	return nil
}

// checkStrings parses every string in a value as a template.
func checkStrings(v jsonedit.Value) error {
	switch v.Kind() {
	case jsonedit.String:
		if text, _ := v.Text(); strings.Contains(text, "{{") {
			_, err := parse(text)
			return err
		}
	case jsonedit.Array:
		for e := range v.Elements() {
			if err := checkStrings(e); err != nil {
				return err
			}
		}
	case jsonedit.Object:
		for _, f := range v.Fields() {
			if err := checkStrings(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// CheckPartial checks the template of a partial.
func CheckPartial(text string) error {
	_, err := parse(text)
	if err != nil {
		return inField(err, keyString)
	}
	return nil
}

// isNull reports whether a setting says nothing.
func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
}
