package simulator_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"strings"
)

func each[T, V any](list []T, f func(T) V) (out []any) {
	for _, v := range list {
		out = append(out, f(v))
	}
	return out
}

func messagesBody(q ask) object {
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

func hearMessages(h *heard, m object) {
	h.fault = textAt(m, "error.message")
	for _, b := range listAt(m, "content") {
		switch textAt(b, "type") {
		case "text":
			h.text += textAt(b, "text")
		case "thinking":
			h.thinking, h.sign = textAt(b, "thinking"), textAt(b, "signature")
		case "tool_use":
			h.calls = append(h.calls, heardCall{textAt(b, "id"), textAt(b, "name"), asJSON(at(b, "input"))})
		}
	}
	h.messagesEnd(m, "usage")
}

func (h *heard) messagesEnd(m object, usage string) {
	if stop := textAt(m, "stop_reason"); stop != "" {
		h.stop, h.refusal = stop, textAt(m, "stop_details.explanation")
	}
	if at(m, usage) != nil {
		h.cached = numberAt(m, usage+".cache_read_input_tokens")
		h.prompt = numberAt(m, usage+".input_tokens") + h.cached + numberAt(m, usage+".cache_creation_input_tokens")
		h.completion = numberAt(m, usage+".output_tokens")
	}
}

func listenMessages(h *heard, m object) {
	switch textAt(m, "type") {
	case "message_start":
		h.messagesEnd(at(m, "message").(object), "usage")
	case "content_block_start":
		if textAt(m, "content_block.type") == "tool_use" {
			h.calls = append(h.calls, heardCall{id: textAt(m, "content_block.id"), name: textAt(m, "content_block.name")})
		}
	case "content_block_delta":
		h.text += textAt(m, "delta.text")
		h.thinking += textAt(m, "delta.thinking")
		h.sign += textAt(m, "delta.signature")
		if textAt(m, "delta.type") == "input_json_delta" {
			h.calls[len(h.calls)-1].arguments += textAt(m, "delta.partial_json")
		}
	case "message_delta":
		d := at(m, "delta").(object)
		d["usage"] = m["usage"]
		h.messagesEnd(d, "usage")
	case "message_stop":
		h.ended = true
	case "error":
		h.fault = textAt(m, "error.message")
	}
}

func responsesBody(q ask) object {
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

func hearResponses(h *heard, m object) {
	h.fault = textAt(m, "error.message")
	for _, item := range listAt(m, "output") {
		switch textAt(item, "type") {
		case "message":
			h.text += textAt(item, "content.0.text")
			h.refusal += textAt(item, "content.0.refusal")
		case "reasoning":
			h.thinking, h.sign = textAt(item, "summary.0.text"), textAt(item, "encrypted_content")
		case "function_call":
			h.calls = append(h.calls, heardCall{textAt(item, "call_id"), textAt(item, "name"), textAt(item, "arguments")})
		}
	}
	h.stop = textAt(m, "status")
	h.prompt, h.cached = numberAt(m, "usage.input_tokens"), numberAt(m, "usage.input_tokens_details.cached_tokens")
	h.completion = numberAt(m, "usage.output_tokens")
}

func listenResponses(h *heard, m object) {
	i := numberAt(m, "output_index")
	switch kind := textAt(m, "type"); kind {
	case "response.output_item.added":
		c := h.call(i)
		c.id, c.name = textAt(m, "item.call_id"), textAt(m, "item.name")
	case "response.output_text.delta":
		h.text += textAt(m, "delta")
	case "response.refusal.delta":
		h.refusal += textAt(m, "delta")
	case "response.reasoning_summary_text.delta":
		h.thinking += textAt(m, "delta")
	case "response.function_call_arguments.delta":
		h.call(i).arguments += textAt(m, "delta")
	case "response.completed", "response.incomplete":
		var whole heard
		hearResponses(&whole, at(m, "response").(object))
		whole.text, whole.refusal, whole.thinking = h.text, h.refusal, h.thinking // of the deltas
		var calls []heardCall
		for _, c := range h.calls {
			if c.id != "" {
				calls = append(calls, c)
			}
		}
		whole.calls, whole.frames, whole.broken, whole.ended = calls, h.frames, h.broken, true
		*h = whole
	case "error":
		h.fault = textAt(m, "error.message")
	}
}

func geminiBody(q ask) object {
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

func hearGemini(h *heard, m object) {
	if fault := textAt(m, "error.message"); fault != "" {
		h.fault = fault
		return
	}
	for _, p := range listAt(m, "candidates.0.content.parts") {
		switch {
		case at(p, "functionCall") != nil:
			h.calls = append(h.calls, heardCall{textAt(p, "functionCall.id"), textAt(p, "functionCall.name"), asJSON(at(p, "functionCall.args"))})
		case at(p, "inlineData") != nil:
			h.images++
		case at(p, "thought") == true:
			h.thinking += textAt(p, "text")
		default:
			h.text += textAt(p, "text")
		}
		h.sign += textAt(p, "thoughtSignature")
	}
	if stop := textAt(m, "candidates.0.finishReason"); stop != "" {
		h.stop, h.ended = stop, true
		if stop == "SAFETY" {
			h.refusal = stop
		}
	}
	if at(m, "usageMetadata") != nil {
		h.prompt, h.cached = numberAt(m, "usageMetadata.promptTokenCount"), numberAt(m, "usageMetadata.cachedContentTokenCount")
		h.completion = numberAt(m, "usageMetadata.totalTokenCount") - h.prompt
	}
}

func converseBody(q ask) object {
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

func hearConverse(h *heard, m object) {
	h.fault = textAt(m, "message")
	for _, b := range listAt(m, "output.message.content") {
		h.text += textAt(b, "text")
		h.thinking += textAt(b, "reasoningContent.reasoningText.text")
		h.sign += textAt(b, "reasoningContent.reasoningText.signature")
		if at(b, "toolUse") != nil {
			h.calls = append(h.calls, heardCall{textAt(b, "toolUse.toolUseId"), textAt(b, "toolUse.name"), asJSON(at(b, "toolUse.input"))})
		}
	}
	h.converseEnd(m)
}

func (h *heard) converseEnd(m object) {
	if stop := textAt(m, "stopReason"); stop != "" {
		h.stop, h.ended = stop, true
		if stop == "content_filtered" {
			h.refusal, h.text = h.text, ""
		}
	}
	if at(m, "usage") != nil {
		h.cached = numberAt(m, "usage.cacheReadInputTokens")
		h.prompt = numberAt(m, "usage.inputTokens") + h.cached + numberAt(m, "usage.cacheWriteInputTokens")
		h.completion = numberAt(m, "usage.outputTokens")
	}
}

func listenConverse(h *heard, m object) {
	switch {
	case textAt(m, "message") != "":
		h.fault = textAt(m, "message")
	case at(m, "start.toolUse") != nil:
		h.calls = append(h.calls, heardCall{id: textAt(m, "start.toolUse.toolUseId"), name: textAt(m, "start.toolUse.name")})
	case at(m, "delta") != nil:
		h.text += textAt(m, "delta.text")
		h.thinking += textAt(m, "delta.reasoningContent.text")
		h.sign += textAt(m, "delta.reasoningContent.signature")
		if at(m, "delta.toolUse") != nil {
			h.calls[len(h.calls)-1].arguments += textAt(m, "delta.toolUse.input")
		}
	default:
		h.converseEnd(m)
	}
}

// binaryData takes the messages of an event stream apart and checks their
// checksums.
func binaryData(body string) (list []string, clean bool) {
	b := []byte(body)
	for len(b) >= 16 {
		size, headers := int(binary.BigEndian.Uint32(b)), int(binary.BigEndian.Uint32(b[4:]))
		if size > len(b) || crc32.ChecksumIEEE(b[:8]) != binary.BigEndian.Uint32(b[8:]) ||
			crc32.ChecksumIEEE(b[:size-4]) != binary.BigEndian.Uint32(b[size-4:]) {
			return list, false
		}
		list = append(list, string(b[12+headers:size-4]))
		b = b[size:]
	}
	return list, len(b) == 0
}

// chunkData is binaryData of frames that hold others in base64.
func chunkData(body string) (list []string, clean bool) {
	outer, clean := binaryData(body)
	for _, data := range outer {
		var chunk struct{ Bytes, Message string }
		if json.Unmarshal([]byte(data), &chunk) != nil {
			return list, false
		}
		if chunk.Message != "" {
			list = append(list, `{"type":"error","error":{"message":`+asJSON(chunk.Message)+`}}`)
			continue
		}
		inner, err := base64.StdEncoding.DecodeString(chunk.Bytes)
		clean = clean && err == nil
		list = append(list, string(inner))
	}
	return list, clean
}

func cohereBody(q ask) object {
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

func hearCohere(h *heard, m object) {
	h.fault, _ = m["message"].(string)
	for _, p := range listAt(m, "message.content") {
		h.text += textAt(p, "text")
		h.thinking += textAt(p, "thinking")
	}
	for _, c := range listAt(m, "message.tool_calls") {
		h.calls = append(h.calls, heardCall{textAt(c, "id"), textAt(c, "function.name"), textAt(c, "function.arguments")})
	}
	h.cohereEnd(m)
}

func (h *heard) cohereEnd(m any) {
	h.stop = textAt(m, "finish_reason")
	h.fault += textAt(m, "error")
	h.prompt, h.completion = numberAt(m, "usage.tokens.input_tokens"), numberAt(m, "usage.tokens.output_tokens")
	h.cached = numberAt(m, "usage.cached_tokens")
	if strings.HasPrefix(h.text, "I can not") {
		h.refusal, h.text = h.text, ""
	}
}

func listenCohere(h *heard, m object) {
	const message = "delta.message."
	switch textAt(m, "type") {
	case "content-delta":
		h.text += textAt(m, message+"content.text")
		h.thinking += textAt(m, message+"content.thinking")
	case "tool-call-start":
		c := h.call(numberAt(m, "index"))
		c.id, c.name = textAt(m, message+"tool_calls.id"), textAt(m, message+"tool_calls.function.name")
	case "tool-call-delta":
		h.call(numberAt(m, "index")).arguments += textAt(m, message+"tool_calls.function.arguments")
	case "message-end":
		h.cohereEnd(at(m, "delta"))
		h.ended = h.fault == ""
	}
}

func ollamaBody(q ask) object {
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

func hearOllama(h *heard, m object) {
	h.fault = textAt(m, "error")
	h.text += textAt(m, "message.content")
	h.thinking += textAt(m, "message.thinking")
	for _, c := range listAt(m, "message.tool_calls") {
		h.calls = append(h.calls, heardCall{textAt(c, "id"), textAt(c, "function.name"), asJSON(at(c, "function.arguments"))})
	}
	if m["done"] == true {
		h.stop, h.ended = textAt(m, "done_reason"), true
		h.prompt, h.completion = numberAt(m, "prompt_eval_count"), numberAt(m, "eval_count")
		if strings.HasPrefix(h.text, "I can not") {
			h.refusal, h.text = h.text, ""
		}
	}
}

func chatBody(q ask) object {
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

func hearChat(h *heard, m object) {
	h.fault = textAt(m, "error.message")
	for _, member := range []string{"choices.0.message.", "choices.0.delta."} {
		h.text += textAt(m, member+"content")
		h.refusal += textAt(m, member+"refusal")
		h.thinking += textAt(m, member+"reasoning_content")
		for i, c := range listAt(m, member+"tool_calls") {
			if at(c, "index") != nil {
				i = numberAt(c, "index")
			}
			call := h.call(i)
			call.id += textAt(c, "id")
			call.name += textAt(c, "function.name")
			call.arguments += textAt(c, "function.arguments")
		}
	}
	if stop := textAt(m, "choices.0.finish_reason"); stop != "" {
		h.stop = stop
	}
	if at(m, "usage") != nil {
		h.prompt, h.completion = numberAt(m, "usage.prompt_tokens"), numberAt(m, "usage.completion_tokens")
		h.cached = numberAt(m, "usage.prompt_tokens_details.cached_tokens")
	}
}

func messageAt(path string) func(object) string {
	return func(m object) string { return textAt(m, path) }
}

func withVersion(version string) func(ask) object {
	return func(q ask) object {
		m := messagesBody(q)
		m["anthropic_version"] = version
		delete(m, "output_config") // Vertex takes none
		return m
	}
}

func geminiPath(prefix string) func(string, bool) string {
	return func(model string, streamed bool) string {
		if streamed {
			return prefix + model + ":streamGenerateContent?alt=sse"
		}
		return prefix + model + ":generateContent"
	}
}

func twoPaths(prefix, plain, streaming string) func(string, bool) string {
	return func(model string, streamed bool) string {
		if streamed {
			return prefix + model + streaming
		}
		return prefix + model + plain
	}
}

var (
	claudeStops = [5]string{"end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"}
	bedrockEnds = [5]string{"end_turn", "max_tokens", "stop_sequence", "tool_use", "content_filtered"}
	geminiStops = [5]string{"STOP", "MAX_TOKENS", "STOP", "STOP", "SAFETY"}
	vertexPath  = "/v1/projects/p/locations/global/publishers/"
)

// tongues are all the protocols and the places where they are spoken.
var tongues = []*tongue{
	{name: "chat", path: fixed("/v1/chat/completions"), body: chatBody, inBody: true, streamInBody: true, frames: eventData,
		hear: hearChat, listen: hearChat, fault: messageAt("error.message"), stops: [5]string{"stop", "length", "stop", "tool_calls", "stop"}},
	{name: "messages", path: fixed("/v1/messages"), body: messagesBody, inBody: true, streamInBody: true, frames: eventData, header: []string{"Anthropic-Version", "2023-06-01"},
		hear: hearMessages, listen: listenMessages, fault: messageAt("error.message"), stops: claudeStops, signs: true},
	{name: "messages on vertex", path: twoPaths(vertexPath+"anthropic/models/", ":rawPredict", ":streamRawPredict"), body: withVersion("vertex-2023-10-16"), streamInBody: true, frames: eventData,
		hear: hearMessages, listen: listenMessages, fault: messageAt("error.message"), stops: claudeStops, signs: true},
	{name: "messages on bedrock", path: twoPaths("/model/", "/invoke", "/invoke-with-response-stream"), body: withVersion("bedrock-2023-05-31"), frames: chunkData,
		hear: hearMessages, listen: listenMessages, fault: messageAt("message"), stops: claudeStops, signs: true},
	{name: "responses", path: fixed("/v1/responses"), body: responsesBody, inBody: true, streamInBody: true, frames: eventData,
		hear: hearResponses, listen: listenResponses, fault: messageAt("error.message"), stops: [5]string{"completed", "incomplete", "", "completed", "completed"}, signs: true},
	{name: "gemini", path: geminiPath("/v1beta/models/"), body: geminiBody, frames: eventData,
		hear: hearGemini, listen: hearGemini, fault: messageAt("error.message"), stops: geminiStops, signs: true},
	{name: "gemini on vertex", path: geminiPath(vertexPath + "google/models/"), body: geminiBody, frames: eventData,
		hear: hearGemini, listen: hearGemini, fault: messageAt("error.message"), stops: geminiStops, signs: true},
	{name: "converse", path: twoPaths("/model/", "/converse", "/converse-stream"), body: converseBody, frames: binaryData,
		hear: hearConverse, listen: listenConverse, fault: messageAt("message"), stops: bedrockEnds, signs: true},
	{name: "cohere", path: fixed("/v2/chat"), body: cohereBody, inBody: true, streamInBody: true, frames: eventData,
		hear: hearCohere, listen: listenCohere, fault: messageAt("message"), stops: [5]string{"COMPLETE", "MAX_TOKENS", "STOP_SEQUENCE", "TOOL_CALL", "COMPLETE"}},
	{name: "ollama", path: fixed("/api/chat"), body: ollamaBody, inBody: true, streamInBody: true, frames: lineData,
		hear: hearOllama, listen: hearOllama, fault: messageAt("error"), stops: [5]string{"stop", "length", "stop", "stop", "stop"}},
}
