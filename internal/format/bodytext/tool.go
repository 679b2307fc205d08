package bodytext

import "modelgate/internal/format/jsonedit"

// toolResult walks the result of a message to a tool server. The blocks of its content, which
// a model reads one after the other, are one message; every other text is one of its own.
//
// https://modelcontextprotocol.io/specification/2026-07-28/server/tools
func (w *walker) toolResult() {
	if w.c.Kind() != jsonedit.Object {
		w.all(Content)
		return
	}
	w.c.Enter('{')
	for {
		key, ok := w.c.Field()
		if !ok {
			return
		}
		name := string(jsonedit.Unescape(key))
		if (name == "content" || name == "contents" || name == "messages") && w.c.Kind() == jsonedit.Array {
			w.message = 0
			w.blocks()
			continue
		}
		first := len(w.Texts)
		w.data = name == "structuredContent"
		w.all(Content)
		for i := range w.Texts[first:] {
			t := &w.Texts[first+i]
			t.Message, t.Data = first+i+1, w.data && t.Kind == Content
		}
		w.data = false
	}
}

// blocks walks an array of blocks of content, or of messages, which is next.
func (w *walker) blocks() {
	w.c.Enter('[')
	for w.c.Element() {
		w.block(0)
	}
}

// maxBlocks is the depth of blocks in others. Those of the protocol are two deep.
const maxBlocks = 4

// block walks a block of content, which is next. The data of images and sounds and the bytes
// of resources are not read.
func (w *walker) block(depth int) {
	if w.c.Kind() != jsonedit.Object || depth == maxBlocks {
		w.all(Content)
		return
	}
	ahead := w.c
	medium := mediumOf(ahead.Value())
	w.c.Enter('{')
	for {
		key, ok := w.c.Field()
		if !ok {
			return
		}
		name := jsonedit.Unescape(key)
		switch plain := string(name); {
		case (plain == "type" || plain == "role") && w.skipName(name):
		case plain == "data" && medium != "" && w.skipEncoded(medium):
		case plain == "blob" && w.skipEncoded("file"):
		case plain == "resource", plain == "content" && w.c.Kind() != jsonedit.Array:
			w.block(depth + 1)
		case plain == "content":
			w.c.Enter('[')
			for w.c.Element() {
				w.block(depth + 1)
			}
		default:
			if plain != "text" { // not read as the continuation of other text
				w.message = 1 + len(w.Texts)
			}
			if !IsFieldName(name) {
				w.addName(key)
			}
			w.all(Content)
			w.message = 0
		}
	}
}

// mediumOf returns image or audio if one of the types of a block says so, and an empty string
// for other blocks.
func mediumOf(block jsonedit.Value) string {
	for key, v := range block.Fields() {
		if text, _ := v.Text(); key.String() == "type" && (text == "image" || text == "audio") {
			return text
		}
	}
	return ""
}

// skipEncoded skips the next value and returns true if it is a string of encoded data.
func (w *walker) skipEncoded(what string) bool {
	if w.c.Kind() != jsonedit.String {
		return false
	}
	ahead := w.c
	raw := ahead.Raw()
	if !isToken(jsonedit.Unescape(raw[1 : len(raw)-1])) {
		return false
	}
	w.uncovered(what)
	w.c = ahead
	return true
}
