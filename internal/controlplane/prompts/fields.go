package prompts

import (
	"bytes"
	"encoding/json"
	"strings"

	"modelgate/config"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/prompt"
	"modelgate/internal/store"
)

// Limits of a version's fields, in bytes.
const (
	maxString  = 1 << 20
	maxSetting = 256 << 10
	maxWord    = 255
)

// Fields are the fields of a version in a request.
type Fields struct {
	String      route.Optional[route.JSON] `json:"string,omitempty" doc:"The messages as a JSON array or as a string that contains one, or a string to complete"`
	Parameters  route.Optional[route.JSON] `json:"parameters,omitempty" doc:"An object with further fields of the generated request"`
	Model       route.Optional[string]     `json:"model,omitempty"`
	VirtualKey  route.Optional[string]     `json:"virtual_key,omitempty" doc:"Slug of a managed provider"`
	Functions   route.Optional[route.JSON] `json:"functions,omitempty"`
	Tools       route.Optional[route.JSON] `json:"tools,omitempty"`
	ToolChoice  route.Optional[route.JSON] `json:"tool_choice,omitempty"`
	Raw         route.Optional[int]        `json:"is_raw_template,omitempty" doc:"1 fills in variables before the string is parsed as JSON"`
	Description route.Optional[string]     `json:"version_description,omitempty"`

	Metadata         route.Optional[route.JSON] `json:"template_metadata,omitempty" doc:"An object stored with the version"`
	MetadataOfPrompt route.Optional[route.JSON] `json:"prompt_metadata,omitempty" doc:"Another name of template_metadata"`
	MetadataPlain    route.Optional[route.JSON] `json:"metadata,omitempty" doc:"Another name of template_metadata"`
}

// anySet reports whether the request sets a field of a version.
func (f *Fields) anySet() bool {
	return f.String.Set || f.Parameters.Set || f.Model.Set || f.VirtualKey.Set || f.Functions.Set || f.Tools.Set || f.ToolChoice.Set ||
		f.Raw.Set || f.Description.Set || f.Metadata.Set || f.MetadataOfPrompt.Set || f.MetadataPlain.Set
}

// missing returns the required fields that the request lacks.
func (f *Fields) missing() []string {
	var names []string
	for _, m := range []struct {
		name string
		set  bool
	}{{"string", f.String.Set}, {"parameters", f.Parameters.Set}, {"model", f.Model.Set}} {
		if !m.set {
			names = append(names, m.name)
		}
	}
	return names
}

// state is the content of a version.
type state struct {
	prompt.Content
	metadata    json.RawMessage
	description string
}

// over returns old with the request's fields applied and checked.
func (f *Fields) over(old state) (state, error) {
	s := old
	s.description = f.Description.Or("")
	s.Model = f.Model.Or(s.Model)
	s.Provider = strings.TrimPrefix(f.VirtualKey.Or(s.Provider), "@")
	for _, m := range []struct{ name, text string }{{"model", s.Model}, {"virtual_key", s.Provider}, {"version_description", s.description}} {
		if err := route.CheckLength(m.name, m.text, 0, maxWord); err != nil {
			return s, err
		}
	}
	if f.Raw.Set && f.Raw.Value != 0 && f.Raw.Value != 1 {
		return s, route.Invalid("is_raw_template", "must be 0 or 1")
	}
	if f.Raw.Set {
		s.Raw = f.Raw.Value == 1
	}
	if err := f.applyTemplate(&s); err != nil {
		return s, err
	}
	if err := f.applyJSON(&s); err != nil {
		return s, err
	}
	return s, s.Check()
}

// applyTemplate applies the template.
func (f *Fields) applyTemplate(s *state) error {
	if !f.String.Set {
		return nil
	}
	var text string
	switch raw := bytes.TrimSpace(f.String.Value); {
	case len(raw) == 0:
		return route.Invalid("string", "must not be null")
	case raw[0] == '[':
		text = string(raw)
	case json.Unmarshal(raw, &text) != nil:
		return route.Invalid("string", "must be a string or an array of messages")
	}
	if len(text) > maxString {
		return route.Invalid("string", "must be at most %d bytes long", maxString)
	}
	s.String = text
	return route.CheckExposed("string", []byte(text))
}

// applyJSON applies the fields that are JSON.
func (f *Fields) applyJSON(s *state) error {
	for _, m := range []struct {
		name  string
		given route.Optional[route.JSON]
		into  *json.RawMessage
		plain bool // an object
	}{
		{"parameters", f.Parameters, &s.Parameters, true},
		{"functions", f.Functions, &s.Functions, false},
		{"tools", f.Tools, &s.Tools, false},
		{"tool_choice", f.ToolChoice, &s.ToolChoice, false},
		{"template_metadata", f.Metadata, &s.metadata, true},
		{"prompt_metadata", f.MetadataOfPrompt, &s.metadata, true},
		{"metadata", f.MetadataPlain, &s.metadata, true},
	} {
		if !m.given.Set {
			continue
		}
		raw := json.RawMessage(m.given.Value)
		if len(raw) > maxSetting {
			return route.Invalid(m.name, "must be at most %d bytes long", maxSetting)
		}
		if m.plain && len(raw) > 0 && bytes.TrimSpace(raw)[0] != '{' {
			return route.Invalid(m.name, "must be an object")
		}
		if err := route.CheckExposed(m.name, raw); err != nil {
			return err
		}
		*m.into = raw
	}
	return nil
}

// version returns the row of a version with the content s.
func (s *state) version(c *route.Caller, prompt string) store.PromptVersion {
	v := s.row()
	v.ID, v.Prompt, v.CreatedBy, v.CreatedAt = c.NewID(), prompt, c.Actor(), c.Now
	return v
}

func (s *state) row() store.PromptVersion {
	return store.PromptVersion{Text: s.Encode(), Model: s.Model, Description: s.description, Metadata: s.metadata}
}

// Row returns a version with these fields only. The error is an *apierr.Error that
// names the field.
func (f *Fields) Row() (store.PromptVersion, error) {
	s, err := f.over(state{})
	return s.row(), err
}

// stateOf returns the content of a stored version.
func stateOf(v store.PromptVersion) (state, error) {
	content, err := prompt.Decode(v.Text)
	return state{Content: content, metadata: v.Metadata, description: v.Description}, err
}

// shownState returns the content of a stored version without credentials, which
// versions could contain before they were checked for them.
func shownState(v store.PromptVersion) (state, error) {
	s, err := stateOf(v)
	s.String = string(config.MaskExposed([]byte(s.String)))
	for _, raw := range []*json.RawMessage{&s.Parameters, &s.Functions, &s.Tools, &s.ToolChoice, &s.metadata} {
		*raw = config.MaskExposed(*raw)
	}
	return s, err
}

// CheckPartial returns an error if the text of a partial is not a valid template or
// contains a credential.
func CheckPartial(text string) error {
	if err := prompt.CheckPartial(text); err != nil {
		return err
	}
	return route.CheckExposed("string", []byte(text))
}
