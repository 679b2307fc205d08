package dialect

import (
	"slices"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// noArguments is the schema of a function without parameters.
var noArguments = []byte(`{"type":"object","properties":{}}`)

// Functions returns the tools that are sent to a target which has only functions, and
// records the others as dropped. If narrow is set, these are the tools that the choice
// names, since the target's own choice cannot name them. A choice of tools of which none
// is left is an error.
func (f *ParamChanges) Functions(narrow bool) (list []*llm.Tool, err error) {
	names := f.r.ToolChoice.Names
	narrow = narrow && len(names) > 0
	for i := range f.r.Tools {
		switch t := &f.r.Tools[i]; {
		case t.Native != nil || t.Server != "":
			f.DropTool(t)
		case !narrow || slices.Contains(names, t.Name):
			list = append(list, t)
		}
	}
	if narrow {
		f.Adapt(llm.FieldToolChoice, OnlyAllowedTools)
	}
	if len(list) == 0 && len(names) > 0 {
		return nil, Invalid(f.r.NameOf(llm.FieldToolChoice), CodeValue, "none of the tools that it names can be offered")
	}
	return list, nil
}

// FunctionSchema returns the schema of the parameters of a tool that is sent as a function
// without other settings, and records what is lost.
func (f *ParamChanges) FunctionSchema(t *llm.Tool) []byte {
	f.DropCache(t.Cache)
	if t.Custom {
		f.AdaptNamed("custom tools", CustomAsFunction)
	}
	if t.Strict != nil && *t.Strict {
		f.DropNamed("strict")
	}
	return SchemaOf(t)
}

// SchemaOf returns the schema of the parameters of a tool that is sent as a function to a
// target that requires one. Callers must not change it.
func SchemaOf(t *llm.Tool) []byte {
	switch {
	case t.Custom:
		return FreeText
	case t.Schema == nil:
		return noArguments
	}
	return t.Schema
}

// DropCache records a cache mark, if there is one, as dropped.
func (f *ParamChanges) DropCache(c *llm.Cache) {
	if c != nil {
		f.Drop(llm.FieldCache)
	}
}

// AppendFunction writes a tool as the chat dialect does. An empty description is left out.
func AppendFunction(b *jsonedit.Builder, name, description string, schema []byte) {
	b.Open('{')
	b.Name("type")
	b.String("function")
	b.Name("function")
	b.Open('{')
	b.Name("name")
	b.String(name)
	if description != "" {
		b.Name("description")
		b.String(description)
	}
	b.Name("parameters")
	b.Raw(schema)
	b.Close('}')
	b.Close('}')
}
