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

// Bounds of a version's fields, in bytes.
const (
	maxString  = 1 << 20
	maxSetting = 256 << 10
	maxWord    = 255
)

// Fields are those of a version, as requests give them.
type Fields struct {
	String      route.Optional[route.JSON] `json:"string,omitempty" doc:"The messages as a JSON array, or a text to complete; as a string, messages also as the array itself"`
	Parameters  route.Optional[route.JSON] `json:"parameters,omitempty" doc:"An object of members of the request that the prompt makes"`
	Model       route.Optional[string]     `json:"model,omitempty"`
	VirtualKey  route.Optional[string]     `json:"virtual_key,omitempty" doc:"Slug of a provider entry"`
	Functions   route.Optional[route.JSON] `json:"functions,omitempty"`
	Tools       route.Optional[route.JSON] `json:"tools,omitempty"`
	ToolChoice  route.Optional[route.JSON] `json:"tool_choice,omitempty"`
	Raw         route.Optional[int]        `json:"is_raw_template,omitempty" doc:"1 fills the whole string before it is read as JSON"`
	Description route.Optional[string]     `json:"version_description,omitempty"`

	Metadata         route.Optional[route.JSON] `json:"template_metadata,omitempty" doc:"An object that is kept with the version"`
	MetadataOfPrompt route.Optional[route.JSON] `json:"prompt_metadata,omitempty" doc:"Another name of template_metadata"`
	MetadataPlain    route.Optional[route.JSON] `json:"metadata,omitempty" doc:"Another name of template_metadata"`
}

// given reports whether the request says anything of a version.
func (f *Fields) given() bool {
	return f.String.Set || f.Parameters.Set || f.Model.Set || f.VirtualKey.Set || f.Functions.Set || f.Tools.Set || f.ToolChoice.Set ||
		f.Raw.Set || f.Description.Set || f.Metadata.Set || f.MetadataOfPrompt.Set || f.MetadataPlain.Set
}

// missing returns what a version lacks that is not filled up from another.
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

// state is what a version says.
type state struct {
	prompt.Content
	metadata    json.RawMessage
	description string
}

// over returns old with what the request gives, checked.
func (f *Fields) over(old state) (state, error) {
	s := old
	s.description = f.Description.Or("")
	s.Model = f.Model.Or(s.Model)
	s.Provider = strings.TrimPrefix(f.VirtualKey.Or(s.Provider), "@")
	for _, m := range []struct{ name, text string }{{"model", s.Model}, {"virtual_key", s.Provider}, {"version_description", s.description}} {
		if len(m.text) > maxWord {
			return s, route.Invalid(m.name, "has at most %d bytes", maxWord)
		}
	}
	if f.Raw.Set && f.Raw.Value != 0 && f.Raw.Value != 1 {
		return s, route.Invalid("is_raw_template", "is 0 or 1")
	}
	if f.Raw.Set {
		s.Raw = f.Raw.Value == 1
	}
	if err := f.text(&s); err != nil {
		return s, err
	}
	if err := f.settings(&s); err != nil {
		return s, err
	}
	return s, s.Check()
}

// text takes over the template.
func (f *Fields) text(s *state) error {
	if !f.String.Set {
		return nil
	}
	var text string
	switch raw := bytes.TrimSpace(f.String.Value); {
	case len(raw) == 0:
		return route.Invalid("string", "can't be null")
	case raw[0] == '[':
		text = string(raw)
	case json.Unmarshal(raw, &text) != nil:
		return route.Invalid("string", "is a string, or an array of messages")
	}
	if len(text) > maxString {
		return route.Invalid("string", "has at most %d bytes", maxString)
	}
	s.String = text
	return route.CheckExposed("string", []byte(text))
}

// settings takes over what is JSON.
func (f *Fields) settings(s *state) error {
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
			return route.Invalid(m.name, "has at most %d bytes", maxSetting)
		}
		if m.plain && len(raw) > 0 && bytes.TrimSpace(raw)[0] != '{' {
			return route.Invalid(m.name, "is an object")
		}
		if err := route.CheckExposed(m.name, raw); err != nil {
			return err
		}
		*m.into = raw
	}
	return nil
}

// version returns the row of a version that says s.
func (s *state) version(c *route.Caller, prompt string) store.PromptVersion {
	v := s.row()
	v.ID, v.Prompt, v.CreatedBy, v.CreatedAt = c.NewID(), prompt, c.Actor(), c.Now
	return v
}

func (s *state) row() store.PromptVersion {
	return store.PromptVersion{Text: s.Encode(), Model: s.Model, Description: s.description, Metadata: s.metadata}
}

// Row returns what a version says that has these fields and no others. The
// error is an *apierr.Error that names the field.
func (f *Fields) Row() (store.PromptVersion, error) {
	s, err := f.over(state{})
	return s.row(), err
}

// stateOf returns what a stored version says.
func stateOf(v store.PromptVersion) (state, error) {
	content, err := prompt.Decode(v.Text)
	return state{Content: content, metadata: v.Metadata, description: v.Description}, err
}

// shownState returns what a stored version says, without credentials that were
// stored before versions were searched for them.
func shownState(v store.PromptVersion) (state, error) {
	s, err := stateOf(v)
	s.String = string(config.MaskExposed([]byte(s.String)))
	for _, raw := range []*json.RawMessage{&s.Parameters, &s.Functions, &s.Tools, &s.ToolChoice, &s.metadata} {
		*raw = config.MaskExposed(*raw)
	}
	return s, err
}

// CheckPartial refuses the text of a partial that is not a template or holds a
// credential.
func CheckPartial(text string) error {
	if err := prompt.CheckPartial(text); err != nil {
		return err
	}
	return route.CheckExposed("string", []byte(text))
}
