package gemini

import (
	"slices"
	"unicode/utf8"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// citations reads the sources of a text from groundingMetadata, whose offsets
// are in bytes.
// https://ai.google.dev/api/generate-content#GroundingMetadata
func citations(v jsonedit.Value, text []byte) []llm.Citation {
	var sources []llm.Citation
	chunks, _ := v.Get("groundingChunks")
	for chunk := range chunks.Elements() {
		sources = append(sources, source(chunk))
	}
	var list []llm.Citation
	supports, _ := v.Get("groundingSupports")
	for support := range supports.Elements() {
		segment, _ := support.Get("segment")
		words, _ := segment.Get("text")
		indices, _ := support.Get("groundingChunkIndices")
		for index := range indices.Elements() {
			n, ok := index.Int()
			if len(list) == maxCitations {
				return list
			}
			if !ok || n < 0 || n >= int64(len(sources)) {
				continue
			}
			c := sources[n]
			c.Start, c.End = bounds(segment, text)
			if c.Text == "" {
				c.Text, _ = words.Text()
			}
			list = append(list, c)
		}
	}
	return list
}

// maxCitations bounds the citations of a few chunks that are referenced again
// and again.
const maxCitations = 1024

// source reads a groundingChunk, which holds one kind of source.
func source(chunk jsonedit.Value) llm.Citation {
	c := llm.Citation{Dialect: own, Raw: slices.Clone(chunk.Raw())}
	for _, inner := range chunk.Fields() {
		for key, v := range inner.Fields() {
			switch string(key.Raw()) {
			case `"uri"`:
				c.URL, _ = v.Text()
			case `"title"`:
				c.Title, _ = v.Text()
			case `"text"`:
				c.Text, _ = v.Text()
			}
		}
	}
	return c
}

// bounds returns the offsets of a segment in characters.
func bounds(segment jsonedit.Value, text []byte) (from, to int) {
	start, _ := segment.Get("startIndex")
	end, _ := segment.Get("endIndex")
	s, _ := start.Int()
	e, _ := end.Int()
	if s < 0 || e < s || e > int64(len(text)) {
		return 0, 0
	}
	from = utf8.RuneCount(text[:s])
	return from, from + utf8.RuneCount(text[s:e])
}

// appendGrounding writes citations as groundingMetadata: each source once, and
// the segments that it supports.
func appendGrounding(b *jsonedit.Builder, list []llm.Citation, said string) {
	b.Name("groundingMetadata")
	b.Open('{')
	b.Name("groundingChunks")
	b.Open('[')
	numbers := map[[2]string]int64{}
	for _, c := range list {
		key := [2]string{c.URL, c.Title}
		if _, ok := numbers[key]; ok {
			continue
		}
		numbers[key] = int64(len(numbers))
		appendSource(b, c)
	}
	b.Close(']')
	b.Name("groundingSupports")
	b.Open('[')
	at := placer{text: said}
	for _, c := range list {
		b.Open('{')
		appendSegmentOf(b, c, &at)
		b.Name("groundingChunkIndices")
		b.Open('[')
		b.Int(numbers[[2]string{c.URL, c.Title}])
		b.Close(']')
		b.Close('}')
	}
	b.Close(']')
	b.Close('}')
}

// appendSegmentOf writes the segment of the text that a source supports.
func appendSegmentOf(b *jsonedit.Builder, c llm.Citation, at *placer) {
	b.Name("segment")
	b.Open('{')
	if from, to, ok := at.bytes(c.Start, c.End); ok {
		number(b, "startIndex", int64(from))
		number(b, "endIndex", int64(to))
	}
	if c.Text != "" {
		text(b, "text", c.Text)
	}
	b.Close('}')
}

func appendSource(b *jsonedit.Builder, c llm.Citation) {
	if c.Dialect == own && c.Raw != nil {
		b.Raw(c.Raw)
		return
	}
	b.Open('{')
	b.Name("web")
	b.Open('{')
	text(b, "uri", c.URL)
	if c.Title != "" {
		text(b, "title", c.Title)
	}
	b.Close('}')
	b.Close('}')
}

// placer converts offsets in characters to offsets in bytes. It continues from
// the previous offset, so that a sorted list takes one pass.
type placer struct {
	text       string
	chars, pos int
}

func (p *placer) bytes(start, end int) (from, to int, ok bool) {
	if start < 0 || end <= start {
		return 0, 0, false
	}
	if from, ok = p.find(start); !ok {
		return 0, 0, false
	}
	to, ok = p.find(end)
	return from, to, ok
}

func (p *placer) find(char int) (int, bool) {
	for ; p.chars > char && p.pos > 0; p.chars-- {
		_, size := utf8.DecodeLastRuneInString(p.text[:p.pos])
		p.pos -= size
	}
	for ; p.chars < char && p.pos < len(p.text); p.chars++ {
		_, size := utf8.DecodeRuneInString(p.text[p.pos:])
		p.pos += size
	}
	return p.pos, p.chars == char
}
