package settings

import (
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// PromptLabel is a name for versions of prompts.
type PromptLabel struct {
	Name        string `json:"name" minLength:"1" maxLength:"255"`
	Workspace   string `json:"workspace,omitempty" maxLength:"255" doc:"Slug; absent for a label of the organisation"`
	Description string `json:"description,omitempty" maxLength:"1024"`
	Color       string `json:"color_code,omitempty" maxLength:"32"`
}

// PromptCollection is a folder of prompts and partials.
type PromptCollection struct {
	Slug      string `json:"slug" pattern:"^[A-Za-z0-9_-][A-Za-z0-9._-]*$" maxLength:"255"`
	Workspace string `json:"workspace,omitempty" maxLength:"255" doc:"Slug; defaults to the first workspace"`
	Name      string `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Parent    string `json:"parent,omitempty" maxLength:"255" doc:"Slug of the parent collection"`
	Default   bool   `json:"default,omitempty" doc:"The collection of the workspace's prompts that name none"`
}

// Prompt is a saved prompt with all its versions, which are numbered 1, 2 and so on in
// order and never change.
type Prompt struct {
	Slug       string          `json:"slug" pattern:"^[A-Za-z0-9_-][A-Za-z0-9._-]*$" maxLength:"255"`
	Workspace  string          `json:"workspace,omitempty" maxLength:"255" doc:"Slug; defaults to the first workspace"`
	Name       string          `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Collection string          `json:"collection,omitempty" maxLength:"255" doc:"Slug; defaults to the workspace's default collection"`
	Published  int64           `json:"published,omitempty" minimum:"1" doc:"Number of the version used if none is named; defaults to the last one in the file"`
	Versions   []PromptVersion `json:"versions" minItems:"1" maxItems:"10000"`
}

// PromptVersion is a version of a prompt.
type PromptVersion struct {
	String      string `json:"string" maxLength:"1048576" doc:"The messages as a JSON array, or a string to complete"`
	Raw         bool   `json:"is_raw_template,omitempty" doc:"Fills in variables before the string is parsed as JSON"`
	Model       string `json:"model,omitempty" maxLength:"255"`
	Provider    string `json:"virtual_key,omitempty" maxLength:"256" doc:"Slug of a managed provider"`
	Parameters  Object `json:"parameters,omitempty"`
	Functions   Value  `json:"functions,omitempty" doc:"An array"`
	Tools       Value  `json:"tools,omitempty" doc:"An array"`
	ToolChoice  Value  `json:"tool_choice,omitempty"`
	Description string `json:"version_description,omitempty" maxLength:"255"`
	Metadata    Object `json:"template_metadata,omitempty"`
	Label       string `json:"label,omitempty" maxLength:"255" doc:"Name; only one version of a prompt can have a label"`
}

// Partial is a template that prompts include, with all its versions, like a [Prompt].
type Partial struct {
	Slug       string           `json:"slug" pattern:"^[A-Za-z0-9_-][A-Za-z0-9._-]*$" maxLength:"255"`
	Workspace  string           `json:"workspace,omitempty" maxLength:"255" doc:"Slug; defaults to the first workspace"`
	Name       string           `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Collection string           `json:"collection,omitempty" maxLength:"255" doc:"Slug; defaults to the workspace's default collection"`
	Published  int64            `json:"published,omitempty" minimum:"1" doc:"Number of the version used if none is named; defaults to the last one in the file"`
	Versions   []PartialVersion `json:"versions" minItems:"1" maxItems:"10000"`
}

// PartialVersion is a version of a partial.
type PartialVersion struct {
	String      string `json:"string" maxLength:"1048576"`
	Description string `json:"version_description,omitempty" maxLength:"255"`
}

// Value is any value in the file, as JSON. Null is nil.
type Value []byte

// MarshalJSON implements json.Marshaler: the value unchanged.
func (v Value) MarshalJSON() ([]byte, error) { return Object(v).MarshalJSON() }

// UnmarshalJSON implements json.Unmarshaler.
func (v *Value) UnmarshalJSON(b []byte) error { return (*Object)(v).UnmarshalJSON(b) }

// UnmarshalYAML stores a value as JSON, mappings in their original order.
func (v *Value) UnmarshalYAML(n ast.Node) error {
	var of any
	if err := yaml.NodeToValue(n, &of, yaml.UseOrderedMap()); err != nil || of == nil {
		return err
	}
	text, err := appendJSON(nil, of)
	if err != nil {
		return wrongValue(n, "cannot be represented in JSON: %v", err)
	}
	*v = text
	return nil
}
