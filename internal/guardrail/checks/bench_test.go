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
		if out := guardrail.Run(context.Background(), hooks, in); out.Failed {
			b.Fatal("failed")
		}
	}
}

func quote(s string) string { return `"` + strings.ReplaceAll(s, `\`, `\\`) + `"` }
