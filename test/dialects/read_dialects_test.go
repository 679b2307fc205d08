package dialects

import (
	"maps"
	"slices"
	"strings"
)

var readers = map[string]*reader{
	"chat":      {readChat, readChatChunk, errorOf("error.message", "error.type")},
	"messages":  {readMessages, readMessagesEvent, errorOf("error.message", "error.type")},
	"responses": {readResponses, readResponsesEvent, errorOf("error.message", "error.type")},
	"gemini":    {readGemini, readGemini, errorOf("error.message", "error.status")},
	"converse":  {readConverse, readConverseEvent, errorOf("message", "__type")},
}

func errorOf(message, word string) func(object) (string, bool) {
	return func(m object) (string, bool) {
		said := str(m, message)
		return said, said != "" && str(m, word) != ""
	}
}

func readChat(h *clientView, m object) {
	message := get(m, "choices.0.message")
	signs := h.chatBlocks(message)
	if said := str(message, "reasoning_content"); said != "" && !signs {
		h.pieces = append(h.pieces, piece{kind: thought, text: said})
	}
	if said := str(message, "content"); said != "" {
		h.pieces = append(h.pieces, textPiece(said))
	}
	if said := str(message, "refusal"); said != "" {
		h.pieces = append(h.pieces, piece{kind: refusal, text: said})
	}
	for _, c := range list(message, "tool_calls") {
		h.pieces = append(h.pieces, piece{kind: call, id: str(c, "id"), name: str(c, "function.name"), args: str(c, "function.arguments"),
			sign: str(c, "extra_content.google.thought_signature")})
	}
	h.stop = str(m, "choices.0.finish_reason")
	h.chatUsage(m)
}

// chatBlocks reads the thinking of content_blocks, which has signatures.
func (h *clientView) chatBlocks(message any) (found bool) {
	for _, b := range list(message, "content_blocks") {
		switch str(b, "type") {
		case "thinking":
			h.pieces = append(h.pieces, piece{kind: thought, text: str(b, "thinking"), sign: str(b, "signature")})
			found = true
		case "image_url", "image":
			h.pieces = append(h.pieces, piece{kind: picture})
		}
	}
	return found
}

func (h *clientView) chatUsage(m object) {
	if get(m, "usage") == nil {
		return
	}
	h.prompt, h.completion = num(m, "usage.prompt_tokens"), num(m, "usage.completion_tokens")
	h.cached = num(m, "usage.prompt_tokens_details.cached_tokens")
	h.written = max(num(m, "usage.prompt_tokens_details.cache_write_tokens"), num(m, "usage.cache_creation_input_tokens"))
}

func readChatChunk(h *clientView, m object) {
	h.fault = str(m, "error.message")
	delta := get(m, "choices.0.delta")
	blocks := list(delta, "content_blocks")
	for _, b := range blocks {
		if str(b, "delta.type") == "thinking" {
			p := h.at(-1-num(b, "index"), piece{kind: thought})
			p.text += str(b, "delta.thinking")
			p.sign += str(b, "delta.signature")
		}
		if str(b, "delta.type") == "image_url" {
			h.at(-1-num(b, "index"), piece{kind: picture})
		}
	}
	if said := str(delta, "reasoning_content"); said != "" && blocks == nil {
		h.last(thought).text += said
	}
	if said := str(delta, "content"); said != "" {
		h.last(text).text += said
	}
	if said := str(delta, "refusal"); said != "" {
		h.last(refusal).text += said
	}
	for _, c := range list(delta, "tool_calls") {
		p := h.at(1+num(c, "index"), piece{kind: call})
		p.id += str(c, "id")
		p.name += str(c, "function.name")
		p.args += str(c, "function.arguments")
		p.sign += str(c, "extra_content.google.thought_signature")
	}
	if stop := str(m, "choices.0.finish_reason"); stop != "" {
		h.stop = stop
	}
	h.chatUsage(m)
}

func readMessages(h *clientView, m object) {
	for _, b := range list(m, "content") {
		h.pieces = append(h.pieces, messagesPiece(b))
	}
	h.messagesEnd(m)
}

func messagesPiece(b any) piece {
	switch str(b, "type") {
	case "thinking":
		return piece{kind: thought, text: str(b, "thinking"), sign: str(b, "signature")}
	case "tool_use":
		return piece{kind: call, id: str(b, "id"), name: str(b, "name"), args: asJSON(get(b, "input"))}
	case "image":
		return piece{kind: picture}
	case "text":
		return textPiece(str(b, "text"))
	}
	return piece{kind: kind("unknown " + str(b, "type"))}
}

func (h *clientView) messagesEnd(m any) {
	if stop := str(m, "stop_reason"); stop != "" {
		h.stop = stop
		if said := str(m, "stop_details.explanation"); said != "" {
			h.pieces = append(h.pieces, piece{kind: refusal, text: said})
		}
	}
	if get(m, "usage") == nil {
		return
	}
	h.cached, h.written = num(m, "usage.cache_read_input_tokens"), num(m, "usage.cache_creation_input_tokens")
	h.prompt = num(m, "usage.input_tokens") + h.cached + h.written
	h.completion = num(m, "usage.output_tokens")
}

func readMessagesEvent(h *clientView, m object) {
	index := num(m, "index")
	switch str(m, "type") {
	case "message_start":
		h.messagesEnd(get(m, "message"))
	case "content_block_start":
		p := messagesPiece(get(m, "content_block"))
		if p.kind == call {
			p.args = "" // it follows
		}
		if len(h.open) > 0 {
			h.unsound = "a block begins inside another"
		}
		h.at(index, p)
	case "content_block_delta":
		if _, ok := h.open[index]; !ok {
			h.unsound = "a delta of a block that is not open"
		}
		p := h.at(index, piece{})
		p.text += str(m, "delta.text") + str(m, "delta.thinking")
		p.sign += str(m, "delta.signature")
		p.args += str(m, "delta.partial_json")
	case "content_block_stop":
		delete(h.open, index)
	case "message_delta":
		d := get(m, "delta").(object)
		d["usage"] = m["usage"]
		h.messagesEnd(d)
	case "message_stop":
		h.ended = true
		if len(h.open) > 0 {
			h.unsound = "a block is left open"
		}
	case "error":
		h.fault = str(m, "error.message")
	}
}

func readResponses(h *clientView, m object) {
	for _, item := range list(m, "output") {
		h.pieces = append(h.pieces, responsesPieces(item)...)
	}
	h.responsesEnd(m)
}

func responsesPieces(item any) (pieces []piece) {
	switch str(item, "type") {
	case "message":
		for _, c := range list(item, "content") {
			p := textPiece(str(c, "text"))
			if str(c, "type") == "refusal" {
				p = piece{kind: refusal, text: str(c, "refusal")}
			}
			pieces = append(pieces, p)
		}
	case "reasoning":
		p := piece{kind: thought, sign: str(item, "encrypted_content")}
		for _, s := range list(item, "summary") {
			p.text += str(s, "text")
		}
		pieces = append(pieces, p)
	case "function_call":
		pieces = append(pieces, piece{kind: call, id: str(item, "call_id"), name: str(item, "name"), args: str(item, "arguments")})
	case "image_generation_call":
		pieces = append(pieces, piece{kind: picture})
	default:
		pieces = append(pieces, piece{kind: kind("unknown " + str(item, "type"))})
	}
	return pieces
}

func (h *clientView) responsesEnd(m any) {
	h.stop = str(m, "status")
	if why := str(m, "incomplete_details.reason"); why != "" {
		h.stop = why
	}
	h.prompt, h.completion = num(m, "usage.input_tokens"), num(m, "usage.output_tokens")
	h.cached, h.written = num(m, "usage.input_tokens_details.cached_tokens"), num(m, "usage.input_tokens_details.cache_write_tokens")
}

// readResponsesEvent adds up deltas, and compares the sum with what the events
// at the end say of the whole.
func readResponsesEvent(h *clientView, m object) {
	index := num(m, "output_index")
	switch str(m, "type") {
	case "response.output_item.added":
		switch item := get(m, "item"); str(item, "type") {
		case "reasoning":
			h.at(index, piece{kind: thought})
		case "function_call":
			h.at(index, piece{kind: call, id: str(item, "call_id"), name: str(item, "name")})
		case "message":
			h.at(index, textPiece(""))
		case "image_generation_call":
			h.at(index, piece{kind: picture})
		}
	case "response.content_part.added":
		if str(m, "part.type") == "refusal" {
			h.at(index, piece{}).kind = refusal
		}
	case "response.output_text.delta", "response.refusal.delta", "response.reasoning_summary_text.delta":
		h.hearPart(index, num(m, "content_index"), str(m, "delta"))
	case "response.function_call_arguments.delta":
		h.at(index, piece{}).args += str(m, "delta")
	case "response.completed", "response.incomplete":
		h.responsesDone(get(m, "response").(object))
	case "response.failed":
		h.fault = str(m, "response.error.message")
	case "error":
		h.fault = str(m, "message") + str(m, "error.message")
	}
}

// readPart adds to one of the parts of an item, which may grow at the same time.
func (h *clientView) hearPart(item, part int, delta string) {
	if h.parts == nil {
		h.parts = map[int]map[int]string{}
	}
	if h.parts[item] == nil {
		h.parts[item] = map[int]string{}
	}
	h.parts[item][part] += delta
	var text strings.Builder
	for _, n := range slices.Sorted(maps.Keys(h.parts[item])) {
		text.WriteString(h.parts[item][n])
	}
	h.at(item, piece{}).text = text.String()
}

func (h *clientView) responsesDone(m object) {
	var whole clientView
	readResponses(&whole, m)
	for i, p := range whole.pieces {
		if i >= len(h.pieces) || h.pieces[i].kind != p.kind || h.pieces[i].text != p.text || h.pieces[i].args != p.args {
			h.unsound = "the deltas are not what the whole says"
			return
		}
		h.pieces[i].sign = p.sign
	}
	h.responsesEnd(m)
	h.ended = true
}

// readGemini reads a response or a piece of one.
func readGemini(h *clientView, m object) {
	if h.fault = str(m, "error.message"); h.fault != "" {
		return
	}
	for _, p := range list(m, "candidates.0.content.parts") {
		sign := str(p, "thoughtSignature")
		if !isBase64(sign) {
			h.unsound = "a signature that is not base64: " + sign
		}
		switch {
		case get(p, "functionCall") != nil:
			args := "{}"
			if v := get(p, "functionCall.args"); v != nil {
				args = asJSON(v)
			}
			h.pieces = append(h.pieces, piece{kind: call, id: str(p, "functionCall.id"), name: str(p, "functionCall.name"), args: args, sign: sign})
		case get(p, "inlineData") != nil:
			h.pieces = append(h.pieces, piece{kind: picture})
		case get(p, "thought") == true:
			last := h.last(thought)
			last.text += str(p, "text")
			last.sign += sign
		case str(p, "text") != "":
			last := h.last(text)
			last.text += str(p, "text")
			last.sign += sign
		case sign != "": // an empty string that only signs
			h.pieces = append(h.pieces, piece{kind: text, sign: sign})
		}
	}
	if stop := str(m, "candidates.0.finishReason"); stop != "" {
		h.stop = stop
		h.ended = true
		if said := str(m, "candidates.0.finishMessage"); said != "" {
			h.pieces = append(h.pieces, piece{kind: refusal, text: said})
		}
	}
	h.geminiUsage(m)
}

func (h *clientView) geminiUsage(m object) {
	if get(m, "usageMetadata") != nil {
		h.prompt, h.cached = num(m, "usageMetadata.promptTokenCount"), num(m, "usageMetadata.cachedContentTokenCount")
		h.completion = num(m, "usageMetadata.candidatesTokenCount") + num(m, "usageMetadata.thoughtsTokenCount")
	}
}

func readConverse(h *clientView, m object) {
	for _, b := range list(m, "output.message.content") {
		switch {
		case get(b, "reasoningContent") != nil:
			h.pieces = append(h.pieces, piece{kind: thought, text: str(b, "reasoningContent.reasoningText.text"), sign: str(b, "reasoningContent.reasoningText.signature")})
		case get(b, "toolUse") != nil:
			h.pieces = append(h.pieces, piece{kind: call, id: str(b, "toolUse.toolUseId"), name: str(b, "toolUse.name"), args: asJSON(get(b, "toolUse.input"))})
		case get(b, "image") != nil:
			h.pieces = append(h.pieces, piece{kind: picture})
		default:
			h.pieces = append(h.pieces, textPiece(str(b, "text")))
		}
	}
	h.converseEnd(m)
}

func (h *clientView) converseEnd(m object) {
	if stop := str(m, "stopReason"); stop != "" {
		h.stop = stop
	}
	if get(m, "usage") != nil {
		h.cached, h.written = num(m, "usage.cacheReadInputTokens"), num(m, "usage.cacheWriteInputTokens")
		h.prompt = num(m, "usage.inputTokens") + h.cached + h.written
		h.completion = num(m, "usage.outputTokens")
	}
}

func readConverseEvent(h *clientView, m object) {
	index := num(m, "contentBlockIndex")
	switch kind := str(m, ":type"); kind {
	case "contentBlockStart":
		h.at(index, piece{kind: call, id: str(m, "start.toolUse.toolUseId"), name: str(m, "start.toolUse.name")})
		if get(m, "start.image") != nil {
			h.at(index, piece{}).kind = picture
		}
	case "contentBlockDelta":
		p := piece{kind: text}
		if get(m, "delta.reasoningContent") != nil {
			p.kind = thought
		}
		at := h.at(index, p)
		at.text += str(m, "delta.text") + str(m, "delta.reasoningContent.text")
		at.sign += str(m, "delta.reasoningContent.signature")
		at.args += str(m, "delta.toolUse.input")
	case "contentBlockStop":
		if _, ok := h.open[index]; !ok {
			h.unsound = "a block ends that is not open"
		}
	case "metadata":
		h.converseEnd(m)
		h.ended = true
	case "messageStop":
		h.converseEnd(m)
	default:
		if strings.HasSuffix(kind, "Exception") {
			h.fault = str(m, "message")
		}
	}
}
