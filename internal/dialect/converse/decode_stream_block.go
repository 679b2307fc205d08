package converse

import (
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// block is a content block that is open.
type block struct {
	index  int64
	kind   blockType
	part   int
	vendor llm.Vendor // of the signature that grows

	// Of blocks that are given out as a whole.
	opened llm.ToolCall
	native string // the member that says what it is
	head   []byte // what announced it
	body   []byte // what has come since
}

type blockType uint8

const (
	blockText blockType = iota
	blockThinking
	blockCall
	blockJSON   // the call that stands for text
	blockHeld   // words that may prove to be a preface
	blockCustom // a call whose text stands inside its arguments
	blockNative
	blockImage
)

// add appends an element to what a block holds.
func (b *block) add(raw []byte) {
	if len(b.body) > 0 {
		b.body = append(b.body, ',')
	}
	b.body = append(b.body, raw...)
}

// raw is the block as a complete response would hold it.
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
