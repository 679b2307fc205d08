package cohere

import (
	"modelgate/internal/llm"
)

// formatTool is the tool that stands for a schema of the answer.
const formatTool = "json_response"

// plan is what of a request both its encoder and the decoders of its answer
// need to know.
type plan struct {
	tools []*llm.Tool // that are offered
	// crowded says that Cohere takes no response_format beside what the request
	// holds, and emulated that a tool stands for the schema.
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
		p.tools = nil // else the model would have to call one
	}
	return p
}

// offered reports whether a tool goes to Cohere: it is a function, and the
// choice does not leave it out.
func offered(r *llm.Request, t *llm.Tool) bool {
	if t.Native != nil || t.Server != "" {
		return false
	}
	if len(r.ToolChoice.Names) == 0 || r.ToolChoice.Mode == llm.ChoiceNone {
		return true
	}
	for _, name := range r.ToolChoice.Names {
		if name == t.Name {
			return true
		}
	}
	return false
}

// strict reports whether every tool asked for strict arguments.
func (p *plan) strict() bool {
	for _, t := range p.tools {
		if t.Strict == nil || !*t.Strict {
			return false
		}
	}
	return len(p.tools) > 0
}

// custom reports whether name is that of a tool that takes free text.
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
