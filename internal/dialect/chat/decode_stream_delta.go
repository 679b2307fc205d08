package chat

import (
	"math"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// deltaFields holds the undecoded members of a delta or a message.
type deltaFields struct {
	content, blocks, details, thought, refusal, annotations []byte
	calls, call, audio, images, google                      []byte
}

func readDelta(raw []byte) (f deltaFields) {
	c := jsonedit.NewCursor(raw)
	if !c.Enter('{') {
		return f
	}
	for key, ok := c.Field(); ok; key, ok = c.Field() {
		value := c.Raw()
		if c.Failed() || len(value) == 0 || value[0] == 'n' {
			continue
		}
		switch string(key) {
		case "content":
			f.content = value
		case "content_blocks":
			f.blocks = value
		case "reasoning_content", "reasoning":
			if len(f.thought) <= 2 {
				f.thought = value
			}
		case "reasoning_details":
			f.details = value
		case "refusal":
			f.refusal = value
		case "annotations":
			f.annotations = value
		case "tool_calls":
			f.calls = value
		case "function_call":
			f.call = value
		case "audio":
			f.audio = value
		case "images":
			f.images = value
		case "extra_content":
			f.google = value
		}
	}
	return f
}

// delta decodes what a chunk adds, in the order in which models generate:
// thinking, text, calls. If content_blocks are present, only calls are read
// outside of them.
func (c *choice) delta(dst []llm.Event, i int, f *chunkChoice) []llm.Event {
	m := readDelta(f.delta)
	dst = c.readText(dst, i, &m, f.logprobs)
	if m.google != nil && c.kind == textPart && c.open != noPart {
		if v, err := jsonedit.ParseValue(m.google); err == nil {
			dst = c.sign(dst, i, googleSignature(v))
		}
	}
	if m.audio != nil {
		c.readAudio(m.audio)
	}
	if len(m.calls) > 2 {
		dst = c.readCalls(dst, i, m.calls)
	}
	if m.call != nil {
		dst = c.legacyCall(dst, i, m.call)
	}
	return dst
}

// readText reads thinking and text, with their log probabilities, citations and
// audio.
func (c *choice) readText(dst []llm.Event, i int, m *deltaFields, logprobs []byte) []llm.Event {
	c.readLogprobs(logprobs)
	if len(m.annotations) > 2 {
		c.readAnnotations(m.annotations)
	}
	texts, thoughts := false, false
	if len(m.blocks) > 2 {
		texts, thoughts = hasContentBlocks(m.blocks)
	}
	if !thoughts {
		dst = c.readThought(dst, i, m)
	}
	if !texts {
		dst = c.readContent(dst, i, m.content)
		dst = c.readImages(dst, i, m.images)
	}
	if len(m.blocks) > 2 {
		dst = c.readBlocks(dst, i, m.blocks)
	}
	if c.logprobs != nil && c.open != noPart && c.kind == textPart {
		dst = c.grow(dst, i, textPart, "")
	}
	if text, _ := unquoted(m.refusal); text != "" {
		c.decline = true
		dst = c.grow(dst, i, refusalPart, text)
	}
	if len(c.cites) > 0 {
		dst = c.emitCitations(dst, i, math.MaxInt)
	}
	return dst
}
