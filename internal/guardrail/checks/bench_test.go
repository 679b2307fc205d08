package checks_test

import (
	"context"
	"strings"
	"testing"

	"modelgate/config"
	"modelgate/internal/guardrail"
	"modelgate/internal/guardrail/checks"
)

// BenchmarkFiveRegexGuardrails runs five guardrails on 4 KB of text. The limit is
// 50 µs.
func BenchmarkFiveRegexGuardrails(b *testing.B) {
	table := checks.New(checks.Services{})
	var hooks []*guardrail.Hook
	for _, rule := range []string{`sk-[A-Za-z0-9]{20,}`, `Project (?:Heron|Falcon)`, `BEGIN PRIVATE KEY`, `AKIA[0-9A-Z]{16}`, `https://internal\.example\.com/`} {
		h, faults := table.CompileHook("$", config.Hook{ID: "h", Deny: true, Checks: []config.Check{{ID: "default.regexMatch", Parameters: object(b, `{"rule":`+quote(rule)+`,"not":true}`)}}}, guardrail.Before)
		if len(faults) > 0 {
			b.Fatal(faults)
		}
		hooks = append(hooks, h)
	}
	in := text(before, strings.Repeat("The quick brown fox jumps over the lazy dog. ", 91))
	in.Request = &guardrail.Request{}
	b.ReportAllocs()
	for b.Loop() {
		if out := guardrail.Run(context.Background(), hooks, in, nil); out.Failed {
			b.Fatal("failed")
		}
	}
}

func quote(s string) string { return `"` + strings.ReplaceAll(s, `\`, `\\`) + `"` }

// BenchmarkPII looks for all kinds of private data in 4 KB of text.
func BenchmarkPII(b *testing.B) {
	table := checks.New(checks.Services{})
	h, faults := table.CompileHook("$", config.Hook{ID: "h", Deny: true, Checks: []config.Check{{ID: "gateway.pii", Parameters: object(b, `{"redact":true}`)}}}, guardrail.Before)
	if len(faults) > 0 {
		b.Fatal(faults)
	}
	for name, words := range map[string]string{
		"prose": "The quick brown fox jumps over the lazy dog, as Ada said on 3 May. ",
		"json":  `{"id": 4711, "created_at": "2026-11-26T15:04:05Z", "path": "/v1/a.b", "n": 3.14}, `,
		"dull":  "word ",
	} {
		b.Run(name, func(b *testing.B) {
			in := text(before, strings.Repeat(words, 4096/len(words)))
			in.Request = &guardrail.Request{}
			b.SetBytes(4096)
			b.ReportAllocs()
			for b.Loop() {
				guardrail.Run(context.Background(), []*guardrail.Hook{h}, in, nil)
			}
		})
	}
}
