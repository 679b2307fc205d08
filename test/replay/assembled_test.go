package replay

import (
	"bytes"
	"encoding/json"
	"slices"
)

// assembled returns the response as a client has it in its history: the body, or
// what the client makes of the events of a stream. It returns nil for a response
// that is not complete.
func (x *exchange) assembled() jsonObject {
	if body := bytes.TrimSpace(x.body()); bytes.HasPrefix(body, []byte("{")) {
		return parse(string(body))
	}
	var assemble func(events []jsonObject) jsonObject
	switch x.API {
	case "chat-completions":
		assemble = assembleChat
	case "messages":
		assemble = assembleMessages
	case "responses":
		assemble = assembleResponses
	case "stream-generate-content":
		assemble = assembleGemini
	case "converse-stream":
		assemble = assembleConverse
	default:
		return nil
	}
	var events []jsonObject
	for _, d := range x.frames() {
		if v := parse(d); v != nil {
			events = append(events, v)
		}
	}
	return assemble(events)
}

// assembleChat adds up deltas as the official Python client does: texts are
// appended, elements of lists are found by their index.
// https://github.com/openai/openai-python/blob/main/src/openai/lib/streaming/_deltas.py
func assembleChat(events []jsonObject) jsonObject {
	message, done := jsonObject{"role": "assistant"}, false
	for _, v := range events {
		for _, c := range list(v, "choices") {
			if number64(c, "index") != 0 {
				continue
			}
			grow(message, object(c, "delta"))
			done = done || text(c, "finish_reason") != ""
		}
	}
	if !done {
		return nil
	}
	for _, call := range list(message, "tool_calls") {
		delete(call.(jsonObject), "index")
	}
	return jsonObject{"choices": []any{jsonObject{"message": message}}}
}

// grow adds a delta to an object.
func grow(object, delta jsonObject) {
	for name, more := range delta {
		switch was := object[name].(type) {
		case string:
			s, ok := more.(string)
			if ok && name != "role" && name != "type" && name != "id" && name != "name" && name != "format" {
				object[name] = was + s
			}
		case jsonObject:
			if m, ok := more.(jsonObject); ok {
				grow(was, m)
			}
		case []any:
			if l, ok := more.([]any); ok {
				object[name] = growList(was, l)
			}
		default:
			if l, ok := more.([]any); ok {
				more = growList(nil, l)
			}
			if more != nil {
				object[name] = more
			}
		}
	}
}

func growList(all, more []any) []any {
	for _, e := range more {
		m, ok := e.(jsonObject)
		at := -1
		if _, numbered := m["index"]; ok && numbered {
			at = slices.IndexFunc(all, func(v any) bool {
				o, _ := v.(jsonObject)
				return o["index"] == m["index"] && (m["id"] == nil || m["id"] == "" || o["id"] == nil || o["id"] == m["id"])
			})
		}
		if at < 0 {
			all = append(all, e)
			continue
		}
		grow(all[at].(jsonObject), m)
	}
	return all
}

// https://docs.claude.com/en/docs/build-with-claude/streaming
func assembleMessages(events []jsonObject) jsonObject {
	blocks, inputs := map[int64]jsonObject{}, map[int64]string{}
	var content []any
	begun, done := false, false
	for _, v := range events {
		i := number64(v, "index")
		switch text(v, "type") {
		case "message_start":
			if begun { // some recordings hold the messages of several turns
				return nil
			}
			begun = true
		case "content_block_start":
			blocks[i] = object(v, "content_block")
			content = append(content, blocks[i])
		case "content_block_delta":
			b, d := blocks[i], object(v, "delta")
			if b == nil {
				return nil
			}
			switch text(d, "type") {
			case "text_delta":
				b["text"] = text(b, "text") + text(d, "text")
			case "thinking_delta":
				b["thinking"] = text(b, "thinking") + text(d, "thinking")
			case "signature_delta":
				b["signature"] = text(b, "signature") + text(d, "signature")
			case "input_json_delta":
				inputs[i] += text(d, "partial_json")
			case "citations_delta":
				b["citations"] = append(list(b, "citations"), d["citation"])
			case "compaction_delta":
				b["content"] = text(b, "content") + text(d, "content")
			}
		case "message_stop":
			done = true
		}
	}
	for i, input := range inputs {
		if input != "" && json.Valid([]byte(input)) {
			blocks[i]["input"] = json.RawMessage(input)
		}
	}
	if !done {
		return nil
	}
	return jsonObject{"content": content}
}

// https://platform.openai.com/docs/api-reference/responses-streaming
func assembleResponses(events []jsonObject) jsonObject {
	var output []any
	for _, v := range events {
		switch text(v, "type") {
		case "response.output_item.done":
			output = append(output, v["item"])
		case "response.completed":
			if whole := list(v, "response.output"); len(whole) > 0 {
				output = whole
			}
			return jsonObject{"output": output}
		}
	}
	return nil
}

// https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent
func assembleGemini(events []jsonObject) jsonObject {
	var parts []any
	done := false
	for _, v := range events {
		for _, c := range list(v, "candidates") {
			if number64(c, "index") != 0 {
				continue
			}
			parts = append(parts, list(c, "content.parts")...)
			done = done || text(c, "finishReason") != ""
		}
	}
	if !done || slices.ContainsFunc(parts, piecemeal) {
		return nil
	}
	return jsonObject{"candidates": []any{jsonObject{"content": jsonObject{"parts": parts}}}}
}

// piecemeal reports whether a part is a call whose arguments come in pieces.
// Clients send back the complete call, which no event holds.
func piecemeal(part any) bool {
	call := object(part, "functionCall")
	return call != nil && (call["partialArgs"] != nil || call["willContinue"] != nil || text(call, "name") == "")
}

// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html
func assembleConverse(events []jsonObject) jsonObject {
	blocks, inputs := map[int64]jsonObject{}, map[int64]string{}
	var order []int64
	done := false
	for _, v := range events {
		done = done || text(v, "stopReason") != ""
		if v["contentBlockIndex"] == nil {
			continue
		}
		i := number64(v, "contentBlockIndex")
		b := blocks[i]
		if b == nil {
			b = jsonObject{}
			blocks[i], order = b, append(order, i)
		}
		grow(b, object(v, "start"))
		d := object(v, "delta")
		switch {
		case text(d, "text") != "":
			b["text"] = text(b, "text") + text(d, "text")
		case d["toolResult"] != nil:
			result := object(b, "toolResult")
			result["content"] = append(list(result, "content"), list(d, "toolResult")...)
		case object(d, "toolUse") != nil:
			inputs[i] += text(d, "toolUse.input")
		case object(d, "reasoningContent") != nil:
			growReasoning(b, object(d, "reasoningContent"))
		}
	}
	if !done {
		return nil
	}
	var content []any
	for _, i := range order {
		b := blocks[i]
		if call := object(b, "toolUse"); call != nil {
			call["input"] = json.RawMessage("{}")
			if input := inputs[i]; input != "" && json.Valid([]byte(input)) {
				call["input"] = json.RawMessage(input)
			}
		}
		if len(b) > 0 {
			content = append(content, b)
		}
	}
	return jsonObject{"output": jsonObject{"message": jsonObject{"role": "assistant", "content": content}}}
}

// growReasoning adds a delta to a block of thinking, which has one level more
// than its deltas.
func growReasoning(block, delta jsonObject) {
	if data := text(delta, "redactedContent"); data != "" {
		block["reasoningContent"] = jsonObject{"redactedContent": data}
		return
	}
	words := object(block, "reasoningContent.reasoningText")
	if words == nil {
		words = jsonObject{"text": ""}
		block["reasoningContent"] = jsonObject{"reasoningText": words}
	}
	for _, name := range []string{"text", "signature"} {
		if more := text(delta, name); more != "" {
			words[name] = text(words, name) + more
		}
	}
}
