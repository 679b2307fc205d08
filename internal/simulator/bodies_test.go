package simulator_test

func each[T, V any](list []T, f func(T) V) (out []any) {
	for _, v := range list {
		out = append(out, f(v))
	}
	return out
}

func messagesBody(q question) object {
	m := object{"max_tokens": 4096, "messages": []any{object{"role": "user", "content": q.user}}}
	if q.limit > 0 {
		m["max_tokens"] = q.limit
	}
	if q.system != "" {
		m["system"] = q.system
	}
	if q.stops != nil {
		m["stop_sequences"] = q.stops
	}
	if q.tools != nil {
		m["tools"] = each(q.tools, func(name string) object { return object{"name": name, "input_schema": citySchema} })
	}
	if q.tool != "" {
		m["tool_choice"] = object{"type": "tool", "name": q.tool}
	}
	if q.schema {
		m["output_config"] = object{"format": object{"type": "json_schema", "schema": citySchema}}
	}
	if q.think {
		m["thinking"] = object{"type": "enabled", "budget_tokens": 1024}
	}
	return m
}

func responsesBody(q question) object {
	m := object{"input": []any{object{"role": "user", "content": q.user}}}
	if q.limit > 0 {
		m["max_output_tokens"] = q.limit
	}
	if q.system != "" {
		m["instructions"] = q.system
	}
	if q.tools != nil {
		m["tools"] = each(q.tools, func(name string) object {
			return object{"type": "function", "name": name, "parameters": citySchema, "strict": true}
		})
	}
	if q.tool != "" {
		m["tool_choice"] = object{"type": "function", "name": q.tool}
	}
	if q.schema {
		m["text"] = object{"format": object{"type": "json_schema", "name": "city", "schema": citySchema, "strict": true}}
	}
	if q.think {
		m["reasoning"] = object{"effort": "low", "summary": "auto"}
		m["include"] = []any{"reasoning.encrypted_content"}
	}
	return m
}

func geminiBody(q question) object {
	config := object{}
	m := object{"contents": []any{object{"role": "user", "parts": []any{object{"text": q.user}}}}, "generationConfig": config}
	if q.limit > 0 {
		config["maxOutputTokens"] = q.limit
	}
	if q.system != "" {
		m["systemInstruction"] = object{"parts": []any{object{"text": q.system}}}
	}
	if q.stops != nil {
		config["stopSequences"] = q.stops
	}
	if q.tools != nil {
		m["tools"] = []any{object{"functionDeclarations": each(q.tools, func(name string) object {
			return object{"name": name, "parametersJsonSchema": citySchema}
		})}}
	}
	if q.tool != "" {
		m["toolConfig"] = object{"functionCallingConfig": object{"mode": "ANY", "allowedFunctionNames": []any{q.tool}}}
	}
	if q.schema {
		config["responseMimeType"], config["responseJsonSchema"] = "application/json", citySchema
	}
	if q.think {
		config["thinkingConfig"] = object{"includeThoughts": true, "thinkingBudget": 1024}
	}
	return m
}

func converseBody(q question) object {
	config := object{}
	m := object{"messages": []any{object{"role": "user", "content": []any{object{"text": q.user}}}}, "inferenceConfig": config}
	if q.limit > 0 {
		config["maxTokens"] = q.limit
	}
	if q.system != "" {
		m["system"] = []any{object{"text": q.system}}
	}
	if q.stops != nil {
		config["stopSequences"] = q.stops
	}
	if q.tools != nil {
		tools := object{"tools": each(q.tools, func(name string) object {
			return object{"toolSpec": object{"name": name, "inputSchema": object{"json": citySchema}}}
		})}
		if q.tool != "" {
			tools["toolChoice"] = object{"tool": object{"name": q.tool}}
		}
		m["toolConfig"] = tools
	}
	if q.schema {
		m["outputConfig"] = object{"textFormat": object{"type": "json_schema", "structure": object{"jsonSchema": object{"schema": asJSON(citySchema)}}}}
	}
	if q.think {
		m["additionalModelRequestFields"] = object{"thinking": object{"type": "enabled", "budget_tokens": 1024}}
	}
	return m
}

func cohereBody(q question) object {
	m := object{"messages": []any{object{"role": "user", "content": q.user}}}
	if q.limit > 0 {
		m["max_tokens"] = q.limit
	}
	if q.system != "" {
		m["messages"] = append([]any{object{"role": "system", "content": q.system}}, m["messages"].([]any)...)
	}
	if q.stops != nil {
		m["stop_sequences"] = q.stops
	}
	if q.tools != nil {
		m["tools"] = each(q.tools, openTool)
	}
	if q.schema {
		m["response_format"] = object{"type": "json_object", "json_schema": citySchema}
	}
	if q.think {
		m["thinking"] = object{"type": "enabled", "token_budget": 1024}
	}
	return m
}

func openTool(name string) object {
	return object{"type": "function", "function": object{"name": name, "parameters": citySchema}}
}

func ollamaBody(q question) object {
	options := object{}
	m := object{"messages": []any{object{"role": "user", "content": q.user}}, "options": options}
	if q.limit > 0 {
		options["num_predict"] = q.limit
	}
	if q.system != "" {
		m["messages"] = append([]any{object{"role": "system", "content": q.system}}, m["messages"].([]any)...)
	}
	if q.stops != nil {
		options["stop"] = q.stops
	}
	if q.tools != nil {
		m["tools"] = each(q.tools, openTool)
	}
	if q.schema {
		m["format"] = citySchema
	}
	if q.think {
		m["think"] = true
	}
	return m
}

func chatBody(q question) object {
	m := object{"messages": []any{object{"role": "user", "content": q.user}}, "stream_options": object{"include_usage": true}}
	if q.limit > 0 {
		m["max_tokens"] = q.limit
	}
	if q.system != "" {
		m["messages"] = append([]any{object{"role": "system", "content": q.system}}, m["messages"].([]any)...)
	}
	if q.stops != nil {
		m["stop"] = q.stops
	}
	if q.tools != nil {
		m["tools"] = each(q.tools, openTool)
	}
	if q.tool != "" {
		m["tool_choice"] = object{"type": "function", "function": object{"name": q.tool}}
	}
	if q.schema {
		m["response_format"] = object{"type": "json_schema", "json_schema": object{"name": "city", "schema": citySchema}}
	}
	return m
}

func withVersion(version string) func(question) object {
	return func(q question) object {
		m := messagesBody(q)
		m["anthropic_version"] = version
		delete(m, "output_config") // Vertex takes none
		return m
	}
}
