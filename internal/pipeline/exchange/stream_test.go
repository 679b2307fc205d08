package exchange_test

import (
	"testing"

	"modelgate/internal/guardrail"
	"modelgate/internal/pipeline/exchange"
)

func TestStreamsAreContinuedOnlyByTargetsWithoutOtherGuardrails(t *testing.T) {
	a, b, other := &guardrail.Hook{ID: "a"}, &guardrail.Hook{ID: "b"}, &guardrail.Hook{ID: "a"}
	c := &exchange.Continuation{Hooks: []*guardrail.Hook{a, b}}
	for _, tt := range []struct {
		name string
		list []*guardrail.Hook
		want bool
	}{
		{"none", nil, true},
		{"one of the stream's", []*guardrail.Hook{b}, true},
		{"the stream's in another order", []*guardrail.Hook{b, a}, true},
		{"another of the same name", []*guardrail.Hook{other}, false},
		{"another before the stream's", []*guardrail.Hook{other, a, b}, false},
		{"another after the stream's", []*guardrail.Hook{a, b, other}, false},
	} {
		if got := c.CheckedBy(tt.list); got != tt.want {
			t.Errorf("a target with the guardrails %s continues the stream: %t, want %t", tt.name, got, tt.want)
		}
	}
}
