package dialects

import "strings"

// chatBody writes an ask as a client of the chat protocol does.
func chatBody(q *ask) object {
	var messages []any
	if q.system != "" {
		messages = append(messages, object{"role": "system", "content": q.system})
	}
	for i, t := range q.turns {
		if t.role == "assistant" {
			messages = append(messages, chatSaid(t))
			continue
		}
		messages = append(messages, chatUser(t, q.mark && i == 0)...)
	}
	m := set(object{"messages": messages, "stream_options": object{"include_usage": true}},
		"max_completion_tokens", q.limit, "stop", q.stops, "temperature", q.heat(),
		"tools", each(q.tools, func(name string) object {
			return object{"type": "function", "function": object{"name": name, "description": "Tells about a city.", "parameters": citySchema()}}
		}))
	if q.choose != "" {
		m["tool_choice"] = object{"type": "function", "function": object{"name": q.choose}}
	}
	if q.serial {
		m["parallel_tool_calls"] = false
	}
	if q.schema {
		m["response_format"] = object{"type": "json_schema", "json_schema": object{"name": "city", "schema": citySchema(), "strict": true}}
	}
	if q.think {
		m["reasoning_effort"] = "low"
	}
	return m
}

func chatUser(t turn, marked bool) (list []any) {
	var content []any
	for _, p := range t.pieces {
		switch p.kind {
		case result:
			list = append(list, object{"role": "tool", "tool_call_id": p.id, "content": p.text})
		case text:
			part := object{"type": "text", "text": p.text}
			if marked {
				part["cache_control"] = object{"type": "ephemeral"}
			}
			content = append(content, part)
		case picture:
			content = append(content, object{"type": "image_url", "image_url": object{"url": "data:image/png;base64," + tinyImage}})
		case linked:
			content = append(content, object{"type": "image_url", "image_url": object{"url": imageURL}})
		case document:
			content = append(content, object{"type": "file", "file": object{"filename": "report.pdf", "file_data": "data:application/pdf;base64," + tinyPDF}})
		}
	}
	if content != nil {
		list = append(list, object{"role": "user", "content": content})
	}
	return list
}

// chatSaid gives a response back with its content_blocks, as clients do that
// asked for them.
func chatSaid(t turn) object {
	m := object{"role": "assistant"}
	var words strings.Builder
	var blocks, calls []any
	for _, p := range t.pieces {
		switch p.kind {
		case text:
			words.WriteString(p.text)
			blocks = append(blocks, object{"type": "text", "text": p.text})
		case thought:
			blocks = append(blocks, set(object{"type": "thinking", "thinking": p.text}, "signature", p.sign))
		case call:
			c := object{"id": p.id, "type": "function", "function": object{"name": p.name, "arguments": p.args}}
			if p.sign != "" {
				c["extra_content"] = object{"google": object{"thought_signature": p.sign}}
			}
			calls = append(calls, c)
		}
	}
	return set(m, "content", words.String(), "content_blocks", blocks, "tool_calls", calls)
}
