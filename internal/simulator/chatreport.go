package simulator

import (
	"encoding/json"
	"slices"
	"strings"
)

// scripted returns the text that the plan sets instead of a response, as raw
// JSON, or nil.
func (x *exchange) scripted(q *chatRequest) []byte {
	switch {
	case x.plan.refusal:
		return []byte(refusalText)
	case x.plan.report:
		raw, _ := json.Marshal(x.chatReport(q)) // it came from valid JSON
		return appendRaw(nil, string(raw))
	}
	return nil
}

// stopsOf returns the stop sequences of a chat request.
func stopsOf(raw []byte) (list []string) {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	json.Unmarshal(raw, &list) // anything except a list of strings stops nothing
	return list
}

// chatReport reads the body again and describes its content. Invalid elements
// are skipped.
func (x *exchange) chatReport(q *chatRequest) *Report {
	var m map[string]any
	json.Unmarshal(x.in, &m) // it was parsed before
	c := &checker{unknown: unknownMember}
	t := &turn{model: string(x.model), stream: q.stream, limit: q.limit, stops: stopsOf(q.stop), serial: q.serial}
	c.readSampling(t, m, chatIndex)
	t.seen.Effort = c.text(m, "reasoning_effort", "")
	t.thinks = t.seen.Effort != "" && t.seen.Effort != "none"
	for _, f := range slices.Concat(readTools(q.tools), readFunctions(q.functions)) {
		var schema any
		json.Unmarshal(f.Parameters, &schema) // nil if there are none
		t.addTool(f.Name, schema)
	}
	t.only = chosenName(q.choice)
	switch choice, _ := m["tool_choice"].(string); {
	case t.only != "":
		t.mode = "tool"
	case choice == "required":
		t.mode = "any"
	default:
		t.mode = choice
	}
	t.chatFormat(m)
	list, _ := m["messages"].([]any)
	for _, v := range list {
		message, _ := v.(map[string]any)
		t.chatMessage(message)
	}
	t.report(x, m)
	return &t.seen
}

func (t *turn) chatFormat(m map[string]any) {
	format, _ := m["response_format"].(map[string]any)
	switch format["type"] {
	case "json_object":
		t.format = "json"
	case "json_schema":
		inner, _ := format["json_schema"].(map[string]any)
		t.format, t.schema = "schema", inner["schema"]
	}
}

func (t *turn) chatMessage(m map[string]any) {
	role, _ := m["role"].(string)
	text, _ := m["content"].(string)
	parts, _ := m["content"].([]any)
	for _, v := range parts {
		part, _ := v.(map[string]any)
		text += t.chatPart(part)
	}
	blocks, _ := m["content_blocks"].([]any)
	for _, v := range blocks {
		block, _ := v.(map[string]any)
		t.chatPart(block)
	}
	if thinking, _ := m["reasoning_content"].(string); thinking != "" {
		t.seen.Thinking = append(t.seen.Thinking, ReportedThought{Text: thinking})
	}
	calls, _ := m["tool_calls"].([]any)
	for _, v := range calls {
		call, _ := v.(map[string]any)
		f, _ := call["function"].(map[string]any)
		id, _ := call["id"].(string)
		name, _ := f["name"].(string)
		arguments, _ := f["arguments"].(string)
		t.seen.Calls = append(t.seen.Calls, ReportedCall{ID: id, Name: name, Arguments: decoded(arguments)})
	}
	switch role {
	case "system", "developer":
		t.addSystem(text)
	case "tool":
		id, _ := m["tool_call_id"].(string)
		name, _ := m["name"].(string)
		t.seen.Results = append(t.seen.Results, ReportedResult{ID: id, Name: name, Text: text})
	default:
		t.addMessage(role, text)
	}
}

// chatPart counts a part of a message and returns its text.
func (t *turn) chatPart(m map[string]any) string {
	if m["cache_control"] != nil {
		t.seen.CachePoints++
	}
	switch m["type"] {
	case "text":
		text, _ := m["text"].(string)
		return text
	case "image_url":
		image, _ := m["image_url"].(map[string]any)
		if url, _ := image["url"].(string); strings.HasPrefix(url, "data:application/") {
			t.seen.Documents++
		} else {
			t.seen.Images++
		}
	case "file":
		t.seen.Documents++
	case "input_audio":
		t.seen.Audio++
	case "thinking", "redacted_thinking":
		text, _ := m["thinking"].(string)
		sign, _ := m["signature"].(string)
		t.seen.Thinking = append(t.seen.Thinking, ReportedThought{Text: text, Signature: sign, Redacted: m["type"] == "redacted_thinking"})
	}
	return ""
}
