package messages_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/dialect/messages"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

var (
	textDelta = []byte(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" The weather in Paris is mild"}}`)
	textStart = []byte(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
)

func BenchmarkDecodeTextDelta(b *testing.B) {
	d := messages.Dialect{}.NewDecoder(nil, anthropic)
	events := d.Decode(nil, sse.Event{Data: textStart})
	b.ReportAllocs()
	for b.Loop() {
		events = d.Decode(events[:0], sse.Event{Data: textDelta})
	}
}

func BenchmarkEncodeTextDelta(b *testing.B) {
	e := messages.Dialect{}.NewEncoder(forClient)
	out := e.Encode(nil, &llm.Event{Kind: llm.EventPartStart, Opened: llm.Text{}})
	delta := llm.Event{Kind: llm.EventDelta, Text: " The weather in Paris is mild"}
	b.ReportAllocs()
	for b.Loop() {
		out = e.Encode(out[:0], &delta)
	}
}

func BenchmarkTapTextDelta(b *testing.B) {
	tap := messages.Dialect{}.NewTap(api.Messages)
	e := sse.Event{Type: []byte("content_block_delta"), Data: textDelta}
	b.ReportAllocs()
	for b.Loop() {
		tap.Event(e)
	}
}

// request is about 4 KB.
func request() []byte {
	var b bytes.Buffer
	b.WriteString(`{"model":"claude-sonnet-4-5","max_tokens":1000,"stream":true,"system":"Be brief.","messages":[`)
	for i := range 10 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"role":"%s","content":[{"type":"text","text":"%s"}]}`, []string{"user", "assistant"}[i%2], strings.Repeat("word ", 70))
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

func TestCheckOfAValidBodyAllocatesNothing(t *testing.T) {
	var doc jsonedit.Doc
	if err := doc.Scan(request()); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { _ = messages.Dialect{}.Check(api.Messages, &doc) }); n > 0 {
		t.Errorf("Check allocates %v times, want never", n)
	}
}

func BenchmarkCheck(b *testing.B) {
	var doc jsonedit.Doc
	if err := doc.Scan(request()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := (messages.Dialect{}).Check(api.Messages, &doc); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeRequest(b *testing.B) {
	body := request()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (messages.Dialect{}).DecodeRequest(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeRequest(b *testing.B) {
	r, err := messages.Dialect{}.DecodeRequest(request())
	if err != nil {
		b.Fatal(err)
	}
	r.Dialect = "chat"
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		if out, _, err = (messages.Dialect{}).EncodeRequest(out[:0], r, anthropic); err != nil {
			b.Fatal(err)
		}
	}
}
