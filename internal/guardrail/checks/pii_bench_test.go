package checks_test

import (
	"context"
	"strings"
	"testing"

	"modelgate/config"
	"modelgate/internal/guardrail"
	"modelgate/internal/guardrail/checks"
)

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
				guardrail.Run(context.Background(), []*guardrail.Hook{h}, in)
			}
		})
	}
}
