package checks

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/guardrail"
)

// requestParams are the lists of requestParametersCheck.
type requestParams struct {
	types, names, keys lists
	values             map[string]valueLists
}

// lists are the allowed and blocked names; an empty allowed list allows all.
type lists struct{ allowed, blocked []string }

// reason returns why a name is refused, with the prefix of reasons, or nothing.
func (l lists) reason(prefix, name string) string {
	switch {
	case slices.Contains(l.blocked, name):
		return prefix + "_blocked"
	case len(l.allowed) > 0 && !slices.Contains(l.allowed, name):
		return prefix + "_not_allowed"
	}
	return ""
}

type valueLists struct{ allowed, blocked []any }

func readLists(p *guardrail.Params, allowed, blocked, path string) (lists, error) {
	l := lists{p.Strings(allowed), p.Strings(blocked)}
	if overlap := common(l.allowed, l.blocked); overlap != "" {
		return l, &guardrail.ParamError{Path: path + "." + blocked, Message: "must not repeat an entry of " + allowed + ": " + overlap}
	}
	return l, nil
}

func compileRequestParams(p *guardrail.Params) (guardrail.Compiled, error) {
	var c requestParams
	list := func(name string) guardrail.Param { return param(name, guardrail.StringList, "", "") }
	tools, err := p.Nested("tools", list("allowedTypes"), list("blockedTypes"), list("allowedFunctionNames"), list("blockedFunctionNames"))
	if err != nil {
		return guardrail.Compiled{}, err
	}
	params, err := p.Nested("params", list("allowedKeys"), list("blockedKeys"), param("values", guardrail.Object, "", ""))
	if err != nil {
		return guardrail.Compiled{}, err
	}
	var problems [4]error
	c.types, problems[0] = readLists(tools, "allowedTypes", "blockedTypes", "tools")
	c.names, problems[1] = readLists(tools, "allowedFunctionNames", "blockedFunctionNames", "tools")
	c.keys, problems[2] = readLists(params, "allowedKeys", "blockedKeys", "params")
	c.values, problems[3] = readValues(params)
	for _, err := range problems {
		if err != nil {
			return guardrail.Compiled{}, err
		}
	}
	return guardrail.Compiled{Run: c.run, Reach: guardrail.Reach{Facts: true}}, nil
}

func readValues(p *guardrail.Params) (map[string]valueLists, error) {
	out := map[string]valueLists{}
	object := p.Object("values")
	for _, key := range slices.Sorted(maps.Keys(object)) {
		var v struct {
			Allowed []any `json:"allowedValues"`
			Blocked []any `json:"blockedValues"`
		}
		d := json.NewDecoder(bytes.NewReader(object[key]))
		d.DisallowUnknownFields()
		if d.Decode(&v) != nil {
			return nil, &guardrail.ParamError{Path: "params.values." + excerpt(key),
				Message: "must be an object with the arrays allowedValues and blockedValues"}
		}
		for _, a := range v.Allowed {
			if equalsAny(v.Blocked, a) {
				return nil, &guardrail.ParamError{Path: "params.values." + excerpt(key), Message: "must not allow and block the same value"}
			}
		}
		out[key] = valueLists{v.Allowed, v.Blocked}
	}
	return out, nil
}

func equalsAny(list []any, v any) bool {
	return slices.ContainsFunc(list, func(one any) bool { return reflect.DeepEqual(one, v) })
}

// finding is one entry of blockedToolsFound or blockedParamsFound.
type finding struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

func (c *requestParams) run(_ context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
	if in.Request.Tools {
		return toolVerdict, nil
	}
	body, err := in.JSON()
	if err != nil {
		return guardrail.Verdict{}, err
	}
	members, ok := membersOf(body)
	if !ok {
		return guardrail.Verdict{}, guardrail.NewIncomplete("the body must be a JSON object without duplicate keys")
	}
	tools, badParams := []finding{}, []finding{}
	for _, t := range toolsOf(members, in.Request.Dialect) {
		if reason := c.types.reason("type", t.kind); reason != "" {
			tools = append(tools, finding{excerpt(t.kind), reason})
		}
		if reason := c.names.reason("name", t.name); reason != "" {
			tools = append(tools, finding{excerpt(t.name), reason})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		if reason := c.keys.reason("key", key); reason != "" {
			badParams = append(badParams, finding{excerpt(key), reason})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.values)) {
		raw, ok := members[key]
		var v any
		if !ok || json.Unmarshal(raw, &v) != nil {
			continue
		}
		switch l := c.values[key]; {
		case equalsAny(l.blocked, v):
			badParams = append(badParams, finding{excerpt(key), "value_blocked"})
		case len(l.allowed) > 0 && !equalsAny(l.allowed, v):
			badParams = append(badParams, finding{excerpt(key), "value_not_allowed"})
		}
	}
	explanation := "all tools and parameters are allowed"
	if len(tools)+len(badParams) > 0 {
		explanation = "the request has tools or parameters that are blocked or not allowed"
	}
	return verdict(len(tools)+len(badParams) == 0, false, "", explanation, map[string]any{
		"blockedToolsFound": tools[:min(len(tools), 100)], "blockedParamsFound": badParams[:min(len(badParams), 100)]}), nil
}

// membersOf returns the members of an object. It is false for other values and
// for objects with a duplicate key, which readers interpret differently.
func membersOf(raw json.RawMessage) (map[string]json.RawMessage, bool) {
	var doc jsonedit.Doc
	if doc.Scan(raw) != nil {
		return nil, false
	}
	out := make(map[string]json.RawMessage, doc.Len())
	for key, value := range doc.Members() {
		out[key.String()] = value.Raw()
	}
	return out, true
}

// tool is a tool of a request in any dialect.
type tool struct{ kind, name string }

// toolsOf returns the tools of a request: the list tools of the chat, messages,
// responses and gemini dialects, the deprecated list functions, and toolConfig
// of converse. A tool that cannot be read has the type "unreadable".
func toolsOf(members map[string]json.RawMessage, dialect string) (list []tool) {
	tools, functions := itemsOf(members["tools"]), itemsOf(members["functions"])
	if config, ok := membersOf(members["toolConfig"]); ok {
		tools = append(tools, itemsOf(config["tools"])...)
	}
	for _, raw := range tools {
		list = append(list, readTool(raw, dialect)...)
	}
	for _, raw := range functions {
		for _, t := range readTool(raw, dialect) {
			list = append(list, tool{"function", t.name})
		}
	}
	return list
}

// itemsOf returns the items of an array. Anything else except null is one item.
func itemsOf(raw json.RawMessage) (items []json.RawMessage) {
	if len(raw) > 0 && json.Unmarshal(raw, &items) != nil {
		return []json.RawMessage{raw}
	}
	return items
}

func readTool(raw json.RawMessage, dialect string) []tool {
	m, ok := membersOf(raw)
	if !ok {
		return []tool{{"unreadable", "unreadable"}}
	}
	text := func(m map[string]json.RawMessage, name string) (s string) {
		_ = json.Unmarshal(m[name], &s) // anything else is not a name
		return s
	}
	kind, name := text(m, "type"), text(m, "name")
	for _, inner := range []string{"function", "custom", "toolSpec"} {
		if in, ok := membersOf(m[inner]); ok && text(in, "name") != "" {
			name = text(in, "name")
		}
	}
	if kind == "" && name == "" { // gemini: a member for each kind of tool
		var list []tool
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if key != "functionDeclarations" && key != "function_declarations" {
				list = append(list, tool{key, key})
				continue
			}
			for _, f := range itemsOf(m[key]) {
				in, _ := membersOf(f)
				list = append(list, tool{"function", text(in, "name")})
			}
		}
		return list
	}
	if kind == "" || kind == "custom" && dialect == "messages" {
		kind = "function"
	}
	if name == "" {
		name = kind
	}
	return []tool{{kind, name}}
}
