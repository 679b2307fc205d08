package converse

import (
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// block is an open content block.
type block struct {
	index  int64
	kind   blockType
	part   int
	vendor llm.Vendor // of the signature so far

	// Of blocks that are emitted complete.
	opened llm.ToolCall
	native string // the member that decides its type
	head   []byte // from its start event
	body   []byte // from its deltas
}

type blockType uint8

const (
	blockText blockType = iota
	blockThinking
	blockCall
	blockJSON   // a call of the forced tool, which becomes text
	blockHeld   // text that may turn out to be a preface
	blockCustom // a call whose text is inside its arguments
	blockNative
	blockImage
)

// add appends an element to a block's content.
func (b *block) add(raw []byte) {
	if len(b.body) > 0 {
		b.body = append(b.body, ',')
	}
	b.body = append(b.body, raw...)
}

// raw returns the block in the form of a complete response.
func (b *block) raw() []byte {
	member, value := "content", append(append([]byte{'['}, b.body...), ']')
	if b.native == "toolUse" {
		member, value = "input", b.body
		if _, err := jsonedit.ParseValue(value); err != nil {
			value = []byte("{}")
		}
	}
	var doc jsonedit.Doc
	if doc.Scan(b.head) != nil {
		return wrap(b.native, b.head)
	}
	return wrap(b.native, doc.Apply(nil, jsonedit.Edit{Name: member, Value: value}))
}
