package cohere

import (
	"modelgate/internal/model/llm"
	"slices"
)

// formatTool is the forced tool for the schema of the response.
const formatTool = "json_response"

// plan holds the properties of a request that its encoder and the decoders of
// its response need.
type plan struct {
	tools []*llm.Tool // the tools that are sent
	// crowded is true if Cohere does not accept a response_format in this
	// request; emulated is true if a forced tool replaces the schema.
	crowded, emulated bool
}

func planOf(r *llm.Request) plan {
	var p plan
	if r == nil {
		return p
	}
	for i := range r.Tools {
		if offered(r, &r.Tools[i]) {
			p.tools = append(p.tools, &r.Tools[i])
		}
	}
	p.crowded = len(p.tools) > 0 || hasDocuments(r)
	p.emulated = p.crowded && r.Format.Kind == llm.FormatSchema && r.Format.Schema != nil
	if p.emulated && r.ToolChoice.Mode == llm.ChoiceNone {
		p.tools = nil // otherwise the model would have to call one
	}
	return p
}

// offered reports whether a tool is sent to Cohere: it is a function, and the
// tool choice allows it.
func offered(r *llm.Request, t *llm.Tool) bool {
	if t.Native != nil || t.Server != "" {
		return false
	}
	if len(r.ToolChoice.Names) == 0 || r.ToolChoice.Mode == llm.ChoiceNone {
		return true
	}
	return slices.Contains(r.ToolChoice.Names, t.Name)
}

// strict reports whether all tools have strict arguments.
func (p *plan) strict() bool {
	for _, t := range p.tools {
		if t.Strict == nil || !*t.Strict {
			return false
		}
	}
	return len(p.tools) > 0
}

// custom reports whether name is a tool with text input.
func (p *plan) custom(name string) bool {
	for _, t := range p.tools {
		if t.Custom && t.Name == name {
			return true
		}
	}
	return false
}

func hasDocuments(r *llm.Request) bool {
	if r.Parameter("documents") != nil {
		return true
	}
	for i := range r.Messages {
		for _, p := range r.Messages[i].Parts {
			if m, ok := p.(llm.Media); ok && m.Kind == llm.Document {
				return true
			}
		}
	}
	return false
}
