package settings

import (
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// PromptLabel is a name that versions of prompts are called by.
type PromptLabel struct {
	Name        string `json:"name" minLength:"1" maxLength:"255"`
	Workspace   string `json:"workspace,omitempty" maxLength:"255" doc:"Slug; absent for one of the organisation"`
	Description string `json:"description,omitempty" maxLength:"1024"`
	Color       string `json:"color_code,omitempty" maxLength:"32"`
}

// PromptCollection is a folder of prompts and partials.
type PromptCollection struct {
	Slug      string `json:"slug" pattern:"^[A-Za-z0-9_-][A-Za-z0-9._-]*$" maxLength:"255"`
	Workspace string `json:"workspace,omitempty" maxLength:"255" doc:"Slug; the first workspace when absent"`
	Name      string `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Parent    string `json:"parent,omitempty" maxLength:"255" doc:"Slug of the collection that it stands in"`
	Default   bool   `json:"default,omitempty" doc:"Prompts of the workspace stand in it that name none"`
}

// Prompt is a saved prompt with all its versions. They have the numbers 1, 2 and
// so on, in their order, and never change.
type Prompt struct {
	Slug       string          `json:"slug" pattern:"^[A-Za-z0-9_-][A-Za-z0-9._-]*$" maxLength:"255"`
	Workspace  string          `json:"workspace,omitempty" maxLength:"255" doc:"Slug; the first workspace when absent"`
	Name       string          `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Collection string          `json:"collection,omitempty" maxLength:"255" doc:"Slug; the workspace's default when absent"`
	Published  int64           `json:"published,omitempty" minimum:"1" doc:"Number of the version that counts where none is named; the last of the file when absent"`
	Versions   []PromptVersion `json:"versions" minItems:"1" maxItems:"10000"`
}

// PromptVersion is one state of a prompt.
type PromptVersion struct {
	String      string `json:"string" maxLength:"1048576" doc:"The messages as a JSON array, or a text to complete"`
	Raw         bool   `json:"is_raw_template,omitempty" doc:"The whole string is filled before it is read as JSON"`
	Model       string `json:"model,omitempty" maxLength:"255"`
	Provider    string `json:"virtual_key,omitempty" maxLength:"256" doc:"Slug of a provider"`
	Parameters  Object `json:"parameters,omitempty"`
	Functions   Value  `json:"functions,omitempty" doc:"A list"`
	Tools       Value  `json:"tools,omitempty" doc:"A list"`
	ToolChoice  Value  `json:"tool_choice,omitempty"`
	Description string `json:"version_description,omitempty" maxLength:"255"`
	Metadata    Object `json:"template_metadata,omitempty"`
	Label       string `json:"label,omitempty" maxLength:"255" doc:"Name; a label stands on one version of a prompt"`
}

// Partial is a text that prompts hold, with all its versions, as a prompt's.
type Partial struct {
	Slug       string           `json:"slug" pattern:"^[A-Za-z0-9_-][A-Za-z0-9._-]*$" maxLength:"255"`
	Workspace  string           `json:"workspace,omitempty" maxLength:"255" doc:"Slug; the first workspace when absent"`
	Name       string           `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Collection string           `json:"collection,omitempty" maxLength:"255" doc:"Slug; the workspace's default when absent"`
	Published  int64            `json:"published,omitempty" minimum:"1" doc:"Number of the version that counts where none is named; the last of the file when absent"`
	Versions   []PartialVersion `json:"versions" minItems:"1" maxItems:"10000"`
}

// PartialVersion is one state of a partial.
type PartialVersion struct {
	String      string `json:"string" maxLength:"1048576"`
	Description string `json:"version_description,omitempty" maxLength:"255"`
}

// Value is anything of the file as JSON text. Null is nil.
type Value []byte

// MarshalJSON implements json.Marshaler: the value unchanged.
func (v Value) MarshalJSON() ([]byte, error) { return Object(v).MarshalJSON() }

// UnmarshalJSON implements json.Unmarshaler.
func (v *Value) UnmarshalJSON(b []byte) error { return (*Object)(v).UnmarshalJSON(b) }

// UnmarshalYAML keeps a value as JSON, mappings in their order.
func (v *Value) UnmarshalYAML(n ast.Node) error {
	var of any
	if err := yaml.NodeToValue(n, &of, yaml.UseOrderedMap()); err != nil || of == nil {
		return err
	}
	text, err := appendJSON(nil, of)
	if err != nil {
		return wrongValue(n, "this can't be written as JSON: %v", err)
	}
	*v = text
	return nil
}
