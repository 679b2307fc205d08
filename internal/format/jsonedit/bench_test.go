package jsonedit_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/format/jsonedit"
)

// chatBody is a chat request of n messages, some with parts and tool calls when
// rich.
func chatBody(n int, rich bool) []byte {
	var b strings.Builder
	b.WriteString(`{"model":"gpt-4o-mini","temperature":0.7,"max_tokens":1024,"messages":[{"role":"system","content":"You are a careful assistant. Answer in plain sentences."}`)
	for i := 1; i < n; i++ {
		b.WriteByte(',')
		line := fmt.Sprintf("Turn %d: the quick brown fox said \\\"hello\\\" to the lazy dog, and the dog, being lazy,\\nwent on sleeping in the warm sun. ", i)
		switch {
		case rich && i%4 == 1:
			fmt.Fprintf(&b, `{"role":"assistant","content":null,"tool_calls":[{"id":"call_%d","type":"function","function":{"name":"look_up","arguments":"{\"city\":\"Paris\",\"days\":%d}"}}]}`, i, i)
		case rich && i%4 == 2:
			fmt.Fprintf(&b, `{"role":"tool","tool_call_id":"call_%d","content":"{\"sky\":\"clear\",\"high\":21.5}"}`, i-1)
		case rich && i%4 == 3:
			fmt.Fprintf(&b, `{"role":"user","content":[{"type":"text","text":"%s"},{"type":"text","text":"%s"}]}`, line, line)
		default:
			role := [...]string{"assistant", "user"}[i%2]
			fmt.Fprintf(&b, `{"role":"%s","content":"%s"}`, role, strings.Repeat(line, 2))
		}
	}
	b.WriteString(`],"tools":[{"type":"function","function":{"name":"look_up","parameters":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city"]}}}],"stream":true,"stream_options":{"include_usage":true},"user":"u-1"}`)
	return []byte(b.String())
}

var bodies = map[string][]byte{"4KB": chatBody(13, false), "200KB": chatBody(951, true)}

func benchmark(b *testing.B, run func(body []byte)) {
	for _, name := range []string{"4KB", "200KB"} {
		body := bodies[name]
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				run(body)
			}
		})
	}
}

func BenchmarkScan(b *testing.B) {
	var d jsonedit.Doc
	benchmark(b, func(body []byte) {
		if err := d.Scan(body); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkStandardValid(b *testing.B) {
	benchmark(b, func(body []byte) {
		if !json.Valid(body) {
			b.Fatal("not valid")
		}
	})
}

func BenchmarkScanFindApply(b *testing.B) {
	var d jsonedit.Doc
	var dst []byte
	edits := []jsonedit.Edit{{Name: "model", Value: []byte(`"gpt-4o"`)}, {Name: "user"}}
	benchmark(b, func(body []byte) {
		if err := d.Scan(body); err != nil {
			b.Fatal(err)
		}
		if _, ok := d.Find("stream"); !ok {
			b.Fatal("stream not found")
		}
		dst = d.Apply(dst[:0], edits...)
	})
}

func BenchmarkCountMessages(b *testing.B) {
	var d jsonedit.Doc
	benchmark(b, func(body []byte) {
		if err := d.Scan(body); err != nil {
			b.Fatal(err)
		}
		messages, _ := d.Find("messages")
		n := 0
		for range messages.Elements() {
			n++
		}
		if n == 0 {
			b.Fatal("no messages")
		}
	})
}

func BenchmarkScanNonASCII(b *testing.B) {
	var d jsonedit.Doc
	body := []byte(`{"content":"` + strings.Repeat("Ein Gruß aus Köln — 東京からこんにちは。", 80) + `"}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if err := d.Scan(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendString(b *testing.B) {
	for name, text := range map[string]string{
		"word":   " word",
		"prose":  strings.Repeat("The house sits on a hill, and \"below\" it lies the river.\nNobody crosses it in winter; ", 44),
		"plain":  strings.Repeat("The house sits on a hill, and below it lies the river. ", 72),
		"beyond": strings.Repeat("房子在山上，下面是一条河。", 105),
	} {
		b.Run(name, func(b *testing.B) {
			var dst []byte
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				dst = jsonedit.AppendString(dst[:0], text)
			}
		})
	}
}
