package simulator_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"strings"
)

func readMessages(h *parsed, m object) {
	h.fault = textAt(m, "error.message")
	for _, b := range listAt(m, "content") {
		switch textAt(b, "type") {
		case "text":
			h.text += textAt(b, "text")
		case "thinking":
			h.thinking, h.sign = textAt(b, "thinking"), textAt(b, "signature")
		case "tool_use":
			h.calls = append(h.calls, readCall{textAt(b, "id"), textAt(b, "name"), asJSON(find(b, "input"))})
		}
	}
	h.messagesEnd(m, "usage")
}

func (h *parsed) messagesEnd(m object, usage string) {
	if stop := textAt(m, "stop_reason"); stop != "" {
		h.stop, h.refusal = stop, textAt(m, "stop_details.explanation")
	}
	if find(m, usage) != nil {
		h.cached = numberAt(m, usage+".cache_read_input_tokens")
		h.prompt = numberAt(m, usage+".input_tokens") + h.cached + numberAt(m, usage+".cache_creation_input_tokens")
		h.completion = numberAt(m, usage+".output_tokens")
	}
}

func readMessagesFrame(h *parsed, m object) {
	switch textAt(m, "type") {
	case "message_start":
		h.messagesEnd(find(m, "message").(object), "usage")
	case "content_block_start":
		if textAt(m, "content_block.type") == "tool_use" {
			h.calls = append(h.calls, readCall{id: textAt(m, "content_block.id"), name: textAt(m, "content_block.name")})
		}
	case "content_block_delta":
		h.text += textAt(m, "delta.text")
		h.thinking += textAt(m, "delta.thinking")
		h.sign += textAt(m, "delta.signature")
		if textAt(m, "delta.type") == "input_json_delta" {
			h.calls[len(h.calls)-1].arguments += textAt(m, "delta.partial_json")
		}
	case "message_delta":
		d := find(m, "delta").(object)
		d["usage"] = m["usage"]
		h.messagesEnd(d, "usage")
	case "message_stop":
		h.ended = true
	case "error":
		h.fault = textAt(m, "error.message")
	}
}

func readResponses(h *parsed, m object) {
	h.fault = textAt(m, "error.message")
	for _, item := range listAt(m, "output") {
		switch textAt(item, "type") {
		case "message":
			h.text += textAt(item, "content.0.text")
			h.refusal += textAt(item, "content.0.refusal")
		case "reasoning":
			h.thinking, h.sign = textAt(item, "summary.0.text"), textAt(item, "encrypted_content")
		case "function_call":
			h.calls = append(h.calls, readCall{textAt(item, "call_id"), textAt(item, "name"), textAt(item, "arguments")})
		}
	}
	h.stop = textAt(m, "status")
	h.prompt, h.cached = numberAt(m, "usage.input_tokens"), numberAt(m, "usage.input_tokens_details.cached_tokens")
	h.completion = numberAt(m, "usage.output_tokens")
}

func readResponsesFrame(h *parsed, m object) {
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
		var whole parsed
		readResponses(&whole, find(m, "response").(object))
		whole.text, whole.refusal, whole.thinking = h.text, h.refusal, h.thinking // of the deltas
		var calls []readCall
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

func readGemini(h *parsed, m object) {
	if fault := textAt(m, "error.message"); fault != "" {
		h.fault = fault
		return
	}
	for _, p := range listAt(m, "candidates.0.content.parts") {
		switch {
		case find(p, "functionCall") != nil:
			h.calls = append(h.calls, readCall{textAt(p, "functionCall.id"), textAt(p, "functionCall.name"), asJSON(find(p, "functionCall.args"))})
		case find(p, "inlineData") != nil:
			h.images++
		case find(p, "thought") == true:
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
	if find(m, "usageMetadata") != nil {
		h.prompt, h.cached = numberAt(m, "usageMetadata.promptTokenCount"), numberAt(m, "usageMetadata.cachedContentTokenCount")
		h.completion = numberAt(m, "usageMetadata.totalTokenCount") - h.prompt
	}
}

func readConverse(h *parsed, m object) {
	h.fault = textAt(m, "message")
	for _, b := range listAt(m, "output.message.content") {
		h.text += textAt(b, "text")
		h.thinking += textAt(b, "reasoningContent.reasoningText.text")
		h.sign += textAt(b, "reasoningContent.reasoningText.signature")
		if find(b, "toolUse") != nil {
			h.calls = append(h.calls, readCall{textAt(b, "toolUse.toolUseId"), textAt(b, "toolUse.name"), asJSON(find(b, "toolUse.input"))})
		}
	}
	h.converseEnd(m)
}

func (h *parsed) converseEnd(m object) {
	if stop := textAt(m, "stopReason"); stop != "" {
		h.stop, h.ended = stop, true
		if stop == "content_filtered" {
			h.refusal, h.text = h.text, ""
		}
	}
	if find(m, "usage") != nil {
		h.cached = numberAt(m, "usage.cacheReadInputTokens")
		h.prompt = numberAt(m, "usage.inputTokens") + h.cached + numberAt(m, "usage.cacheWriteInputTokens")
		h.completion = numberAt(m, "usage.outputTokens")
	}
}

func readConverseFrame(h *parsed, m object) {
	switch {
	case textAt(m, "message") != "":
		h.fault = textAt(m, "message")
	case find(m, "start.toolUse") != nil:
		h.calls = append(h.calls, readCall{id: textAt(m, "start.toolUse.toolUseId"), name: textAt(m, "start.toolUse.name")})
	case find(m, "delta") != nil:
		h.text += textAt(m, "delta.text")
		h.thinking += textAt(m, "delta.reasoningContent.text")
		h.sign += textAt(m, "delta.reasoningContent.signature")
		if find(m, "delta.toolUse") != nil {
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

func readCohere(h *parsed, m object) {
	h.fault, _ = m["message"].(string)
	for _, p := range listAt(m, "message.content") {
		h.text += textAt(p, "text")
		h.thinking += textAt(p, "thinking")
	}
	for _, c := range listAt(m, "message.tool_calls") {
		h.calls = append(h.calls, readCall{textAt(c, "id"), textAt(c, "function.name"), textAt(c, "function.arguments")})
	}
	h.cohereEnd(m)
}

func (h *parsed) cohereEnd(m any) {
	h.stop = textAt(m, "finish_reason")
	h.fault += textAt(m, "error")
	h.prompt, h.completion = numberAt(m, "usage.tokens.input_tokens"), numberAt(m, "usage.tokens.output_tokens")
	h.cached = numberAt(m, "usage.cached_tokens")
	if strings.HasPrefix(h.text, "I can not") {
		h.refusal, h.text = h.text, ""
	}
}

func readCohereFrame(h *parsed, m object) {
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
		h.cohereEnd(find(m, "delta"))
		h.ended = h.fault == ""
	}
}

func readOllama(h *parsed, m object) {
	h.fault = textAt(m, "error")
	h.text += textAt(m, "message.content")
	h.thinking += textAt(m, "message.thinking")
	for _, c := range listAt(m, "message.tool_calls") {
		h.calls = append(h.calls, readCall{textAt(c, "id"), textAt(c, "function.name"), asJSON(find(c, "function.arguments"))})
	}
	if m["done"] == true {
		h.stop, h.ended = textAt(m, "done_reason"), true
		h.prompt, h.completion = numberAt(m, "prompt_eval_count"), numberAt(m, "eval_count")
		if strings.HasPrefix(h.text, "I can not") {
			h.refusal, h.text = h.text, ""
		}
	}
}

func readChat(h *parsed, m object) {
	h.fault = textAt(m, "error.message")
	for _, member := range []string{"choices.0.message.", "choices.0.delta."} {
		h.text += textAt(m, member+"content")
		h.refusal += textAt(m, member+"refusal")
		h.thinking += textAt(m, member+"reasoning_content")
		for i, c := range listAt(m, member+"tool_calls") {
			if find(c, "index") != nil {
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
	if find(m, "usage") != nil {
		h.prompt, h.completion = numberAt(m, "usage.prompt_tokens"), numberAt(m, "usage.completion_tokens")
		h.cached = numberAt(m, "usage.prompt_tokens_details.cached_tokens")
	}
}
