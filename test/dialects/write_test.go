package dialects

import "encoding/json"

// args is the value of a call's arguments.
func (p piece) value() (v any) {
	json.Unmarshal([]byte(p.args), &v) // it is JSON
	return v
}

// messagesBody writes an ask as a client of the messages protocol does.
func messagesBody(q *ask) object {
	m := set(object{"max_tokens": 4096}, "max_tokens", q.limit, "system", q.system, "stop_sequences", q.stops, "temperature", q.heat(),
		"tools", each(q.tools, func(name string) object {
			return object{"name": name, "description": "Tells about a city.", "input_schema": citySchema()}
		}))
	first := true
	m["messages"] = each(q.turns, func(t turn) object {
		content := each(t.pieces, messagesBlock)
		if q.mark && first {
			content[0].(object)["cache_control"] = object{"type": "ephemeral"}
		}
		first = false
		return object{"role": t.role, "content": content}
	})
	switch {
	case q.choose != "":
		m["tool_choice"] = object{"type": "tool", "name": q.choose}
	case q.serial:
		m["tool_choice"] = object{"type": "auto", "disable_parallel_tool_use": true}
	}
	if q.schema {
		m["output_config"] = object{"format": object{"type": "json_schema", "schema": citySchema()}}
	}
	if q.think {
		m["thinking"] = object{"type": "enabled", "budget_tokens": 1024}
	}
	return m
}

func messagesBlock(p piece) object {
	switch p.kind {
	case thought:
		return object{"type": "thinking", "thinking": p.text, "signature": p.sign}
	case call:
		return object{"type": "tool_use", "id": p.id, "name": p.name, "input": p.value()}
	case result:
		return set(object{"type": "tool_result", "tool_use_id": p.id, "content": p.text}, "is_error", p.failed)
	case picture:
		return object{"type": "image", "source": object{"type": "base64", "media_type": "image/png", "data": tinyImage}}
	case linked:
		return object{"type": "image", "source": object{"type": "url", "url": imageURL}}
	case document:
		return object{"type": "document", "title": "report", "source": object{"type": "base64", "media_type": "application/pdf", "data": tinyPDF}}
	}
	return object{"type": "text", "text": p.text}
}

// responsesBody writes an ask as a client of the responses protocol does.
func responsesBody(q *ask) object {
	m := set(object{"store": false, "include": []any{"reasoning.encrypted_content"}}, "instructions", q.system, "max_output_tokens", q.limit, "temperature", q.heat(),
		"tools", each(q.tools, func(name string) object {
			return object{"type": "function", "name": name, "description": "Tells about a city.", "parameters": citySchema(), "strict": true}
		}))
	var input []any
	for _, t := range q.turns {
		input = append(input, responsesItems(t)...)
	}
	m["input"] = input
	if q.choose != "" {
		m["tool_choice"] = object{"type": "function", "name": q.choose}
	}
	if q.serial {
		m["parallel_tool_calls"] = false
	}
	if q.schema {
		m["text"] = object{"format": object{"type": "json_schema", "name": "city", "schema": citySchema(), "strict": true}}
	}
	if q.think {
		m["reasoning"] = object{"effort": "low", "summary": "auto"}
	}
	return m
}

func responsesItems(t turn) (items []any) {
	var content []any
	for _, p := range t.pieces {
		switch p.kind {
		case thought:
			items = append(items, set(object{"type": "reasoning", "id": "rs_1", "summary": summaryOf(p)}, "encrypted_content", p.sign))
		case call:
			items = append(items, object{"type": "function_call", "call_id": p.id, "name": p.name, "arguments": p.args})
		case result:
			items = append(items, object{"type": "function_call_output", "call_id": p.id, "output": p.text})
		case text:
			word := "input_text"
			if t.role == "assistant" {
				word = "output_text"
			}
			part := object{"type": word, "text": p.text}
			if t.role == "assistant" {
				items = append(items, object{"type": "message", "role": t.role, "content": []any{part}})
				continue
			}
			content = append(content, part)
		case picture:
			content = append(content, object{"type": "input_image", "image_url": "data:image/png;base64," + tinyImage, "detail": "auto"})
		case linked:
			content = append(content, object{"type": "input_image", "image_url": imageURL, "detail": "auto"})
		case document:
			content = append(content, object{"type": "input_file", "filename": "report.pdf", "file_data": "data:application/pdf;base64," + tinyPDF})
		}
	}
	if content != nil {
		items = append(items, object{"role": t.role, "content": content})
	}
	return items
}

func summaryOf(p piece) []any {
	if p.text == "" {
		return []any{}
	}
	return []any{object{"type": "summary_text", "text": p.text}}
}

// geminiBody writes an ask as a client of the gemini protocol does.
func geminiBody(q *ask) object {
	config := set(object{}, "maxOutputTokens", q.limit, "stopSequences", q.stops, "temperature", q.heat())
	if q.schema {
		config["responseMimeType"], config["responseJsonSchema"] = "application/json", citySchema()
	}
	if q.think {
		config["thinkingConfig"] = object{"includeThoughts": true, "thinkingBudget": 1024}
	}
	m := set(object{}, "generationConfig", config)
	if q.system != "" {
		m["systemInstruction"] = object{"parts": []any{object{"text": q.system}}}
	}
	m["contents"] = each(q.turns, func(t turn) object {
		role := "user"
		if t.role == "assistant" {
			role = "model"
		}
		return object{"role": role, "parts": each(t.pieces, geminiPart)}
	})
	if q.tools != nil {
		m["tools"] = []any{object{"functionDeclarations": each(q.tools, func(name string) object {
			return object{"name": name, "description": "Tells about a city.", "parametersJsonSchema": citySchema()}
		})}}
	}
	if q.choose != "" {
		m["toolConfig"] = object{"functionCallingConfig": object{"mode": "ANY", "allowedFunctionNames": []any{q.choose}}}
	}
	return m
}

func geminiPart(p piece) object {
	switch p.kind {
	case thought:
		return set(object{"text": p.text, "thought": true}, "thoughtSignature", p.sign)
	case call:
		return set(object{"functionCall": set(object{"name": p.name, "args": p.value()}, "id", p.id)}, "thoughtSignature", p.sign)
	case result:
		word := "output"
		if p.failed {
			word = "error"
		}
		return object{"functionResponse": set(object{"name": p.name, "response": object{word: p.text}}, "id", p.id)}
	case picture:
		return object{"inlineData": object{"mimeType": "image/png", "data": tinyImage}}
	case linked:
		return object{"fileData": object{"mimeType": "image/png", "fileUri": imageURL}}
	case document:
		return object{"inlineData": object{"mimeType": "application/pdf", "data": tinyPDF}}
	}
	return object{"text": p.text}
}

// converseBody writes an ask as a client of the converse protocol does.
func converseBody(q *ask) object {
	config := set(object{}, "maxTokens", q.limit, "stopSequences", q.stops, "temperature", q.heat())
	m := set(object{}, "inferenceConfig", config)
	if q.system != "" {
		m["system"] = []any{object{"text": q.system}}
	}
	first := true
	m["messages"] = each(q.turns, func(t turn) object {
		content := each(t.pieces, converseBlock)
		if q.mark && first {
			content = append(content[:1:1], append([]any{object{"cachePoint": object{"type": "default"}}}, content[1:]...)...)
		}
		first = false
		return object{"role": t.role, "content": content}
	})
	if q.tools != nil {
		tools := object{"tools": each(q.tools, func(name string) object {
			return object{"toolSpec": object{"name": name, "description": "Tells about a city.", "inputSchema": object{"json": citySchema()}}}
		})}
		if q.choose != "" {
			tools["toolChoice"] = object{"tool": object{"name": q.choose}}
		}
		m["toolConfig"] = tools
	}
	if q.schema {
		schema, _ := json.Marshal(citySchema()) // it is JSON
		m["outputConfig"] = object{"textFormat": object{"type": "json_schema", "structure": object{"jsonSchema": object{"name": "city", "schema": string(schema)}}}}
	}
	if q.think {
		m["additionalModelRequestFields"] = object{"thinking": object{"type": "enabled", "budget_tokens": 1024}}
	}
	return m
}

func converseBlock(p piece) object {
	switch p.kind {
	case thought:
		return object{"reasoningContent": object{"reasoningText": set(object{"text": p.text}, "signature", p.sign)}}
	case call:
		return object{"toolUse": object{"toolUseId": p.id, "name": p.name, "input": p.value()}}
	case result:
		m := object{"toolUseId": p.id, "content": []any{object{"text": p.text}}}
		if p.failed {
			m["status"] = "error"
		}
		return object{"toolResult": m}
	case picture:
		return object{"image": object{"format": "png", "source": object{"bytes": tinyImage}}}
	case document:
		return object{"document": object{"format": "pdf", "name": "report", "source": object{"bytes": tinyPDF}}}
	}
	return object{"text": p.text}
}
