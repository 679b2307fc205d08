package checks_test

import (
	"context"
	"encoding/json"
	"testing"

	"modelgate/config"
	"modelgate/internal/guardrail"
	"modelgate/internal/guardrail/checks"
)

// object reads parameters written as JSON.
func object(t testing.TB, text string) config.Object {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		t.Fatalf("parameters %s: %v", text, err)
	}
	var o config.Object
	for name, value := range members {
		o = append(o, config.Member{Name: name, Value: value})
	}
	return o
}

// hook compiles a hook of one check.
func hook(t testing.TB, s checks.Services, on guardrail.Event, id, params string) *guardrail.Hook {
	t.Helper()
	h, faults := checks.New(s).CompileHook("$", config.Hook{ID: "h", Checks: []config.Check{{ID: id, Parameters: object(t, params)}}}, on)
	if len(faults) > 0 {
		t.Fatalf("compiling %s %s: %v", id, params, faults)
	}
	return h
}

// run runs one check and returns its result and the outcome.
func run(t testing.TB, s checks.Services, in *guardrail.Input, id, params string) (guardrail.CheckResult, *guardrail.Outcome) {
	t.Helper()
	if in.Request == nil {
		in.Request = &guardrail.Request{Operation: "chatComplete"}
	}
	out := guardrail.Run(context.Background(), []*guardrail.Hook{hook(t, s, in.Event, id, params)}, in, nil)
	return out.Results[0].Checks[0], out
}

// text returns an input of one text.
func text(on guardrail.Event, texts ...string) *guardrail.Input {
	in := &guardrail.Input{Event: on}
	role := "user"
	if on == guardrail.After {
		role = "assistant"
	}
	for i, s := range texts {
		in.Parts = append(in.Parts, guardrail.Part{Kind: guardrail.Text, Role: role, Index: i, Text: s})
	}
	return in
}

// textRow is a row of a table of checks of texts. want is passed, failed or
// error.
type textRow struct{ params, text, want string }

func testTexts(t *testing.T, on guardrail.Event, id string, rows []textRow) {
	t.Helper()
	for _, tt := range rows {
		t.Run(id+" "+tt.params+" "+tt.text[:min(40, len(tt.text))], func(t *testing.T) {
			in := text(on, tt.text)
			if tt.text == "" {
				in.Parts = nil
			}
			r, _ := run(t, checks.Services{}, in, id, tt.params)
			if got := resultOf(r); got != tt.want {
				t.Errorf("%s %s on %.80q = %s, want %s (data %v, error %v)", id, tt.params, tt.text, got, tt.want, r.Data, r.Error)
			}
		})
	}
}

func resultOf(r guardrail.CheckResult) string {
	switch {
	case r.Error != nil:
		return "error"
	case r.Verdict:
		return "passed"
	}
	return "failed"
}
