package guardrail_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/config"
	"modelgate/internal/guardrail"
)

// plain returns a definition of a check without parameters.
func plain(id string, c guardrail.Compiled) guardrail.Definition {
	return guardrail.Definition{ID: id, On: guardrail.Before | guardrail.After, Compile: func(*guardrail.Params) (guardrail.Compiled, error) { return c, nil }}
}

// verdict returns a check with a constant result.
func verdict(passed bool, err error) guardrail.Compiled {
	return guardrail.Compiled{Run: func(context.Context, *guardrail.Input) (guardrail.Verdict, error) {
		return guardrail.Verdict{Passed: passed}, err
	}}
}

// appending returns a check that appends to all texts.
func appending(suffix string) guardrail.Compiled {
	return guardrail.Compiled{Transforms: true, Run: func(_ context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		v := guardrail.Verdict{Passed: true}
		for _, p := range in.Parts {
			v.Texts = append(v.Texts, p.Text+suffix)
		}
		return v, nil
	}}
}

// without returns a check that passes if a text lacks a word.
func without(word string) guardrail.Compiled {
	return guardrail.Compiled{Run: func(_ context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		for _, p := range in.Parts {
			if strings.Contains(p.Text, word) {
				return guardrail.Verdict{Data: &guardrail.Data{More: map[string]any{"text": p.Text}}}, nil
			}
		}
		return guardrail.Verdict{Passed: true}, nil
	}}
}

func remotely(run func(context.Context) error) guardrail.Compiled {
	return guardrail.Compiled{Remote: true, Run: func(ctx context.Context, _ *guardrail.Input) (guardrail.Verdict, error) {
		err := run(ctx)
		return guardrail.Verdict{Passed: err == nil}, err
	}}
}

var table = guardrail.NewTable(
	plain("t.pass", verdict(true, nil)), plain("t.fail", verdict(false, nil)), plain("t.error", verdict(false, errors.New("broken"))),
	plain("t.panic", guardrail.Compiled{Run: func(context.Context, *guardrail.Input) (guardrail.Verdict, error) { panic("secret text") }}),
	plain("t.a", appending("a")), plain("t.b", appending("b")), plain("t.noA", without("a")),
	plain("t.second", remotely(func(ctx context.Context) error { return sleep(ctx, time.Second) })),
	plain("t.hour", remotely(func(ctx context.Context) error { return sleep(ctx, time.Hour) })),
	plain("t.short", guardrail.Compiled{Transforms: true, Run: func(context.Context, *guardrail.Input) (guardrail.Verdict, error) {
		return guardrail.Verdict{Passed: true, Texts: []string{}}, nil
	}}),
)

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// hookOf compiles a hook from JSON of a config's list of hooks.
func hookOf(t *testing.T, from *guardrail.Table, text string) *guardrail.Hook {
	t.Helper()
	c, err := config.Parse([]byte(`{"provider":"openai","api_key":"k","before_request_hooks":[` + text + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	h, faults := from.CompileHook("$.before_request_hooks[0]", c.BeforeHooks[0], guardrail.Before)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return h
}

func input(texts ...string) *guardrail.Input {
	in := &guardrail.Input{Event: guardrail.Before, Request: &guardrail.Request{}}
	for _, s := range texts {
		in.Parts = append(in.Parts, guardrail.Part{Kind: guardrail.Text, Role: "user", Text: s})
	}
	return in
}

func textsOf(parts []guardrail.Part) string {
	var all []string
	for _, p := range parts {
		all = append(all, p.Text)
	}
	return strings.Join(all, "|")
}

func TestHookFailsByItsChecksAndErrors(t *testing.T) {
	closed := guardrail.NewTable(plain("t.pass", verdict(true, nil)), plain("t.error", verdict(false, errors.New("broken"))))
	closed.FailClosed = true
	for _, tt := range []struct {
		name, hook            string
		from                  *guardrail.Table
		verdict, deny, denied bool
	}{
		{"all pass", `{"id":"h","deny":true,"checks":[{"id":"t.pass","parameters":{}}]}`, table, true, false, false},
		{"no checks", `{"id":"h","deny":true}`, table, true, false, false},
		{"one fails", `{"id":"h","checks":[{"id":"t.pass","parameters":{}},{"id":"t.fail","parameters":{}}]}`, table, false, false, false},
		{"one fails and denies", `{"id":"h","deny":true,"checks":[{"id":"t.fail","parameters":{}}]}`, table, false, true, true},
		{"deny under on_fail", `{"id":"h","on_fail":{"deny":true},"checks":[{"id":"t.fail","parameters":{}}]}`, table, false, true, true},
		{"an error passes", `{"id":"h","deny":true,"checks":[{"id":"t.error","parameters":{}}]}`, table, true, false, false},
		{"an error fails on request", `{"id":"h","deny":true,"checks":[{"id":"t.error","parameters":{"failOnError":true}}]}`, table, false, true, true},
		{"an error fails by setting", `{"id":"h","deny":true,"checks":[{"id":"t.error","parameters":{}}]}`, closed, false, true, true},
		{"an error passes on request", `{"id":"h","deny":true,"checks":[{"id":"t.error","parameters":{"failOnError":false}}]}`, closed, true, false, false},
		{"a panic is an error", `{"id":"h","deny":true,"checks":[{"id":"t.panic","parameters":{"failOnError":true}}]}`, table, false, true, true},
		{"a disabled check does not run", `{"id":"h","deny":true,"checks":[{"id":"t.fail","parameters":{},"is_enabled":false},{"id":"t.fail","parameters":{"is_enabled":false}}]}`, table, true, false, false},
		{"another number of texts is an error", `{"id":"h","checks":[{"id":"t.short","parameters":{"failOnError":true}}]}`, table, false, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := guardrail.Run(context.Background(), []*guardrail.Hook{hookOf(t, tt.from, tt.hook)}, input("x"), nil)
			r := out.Results[0]
			if r.Verdict != tt.verdict || r.Deny != tt.deny || out.Denied != tt.denied || out.Failed == tt.verdict {
				t.Errorf("verdict %t, deny %t, denied %t, failed %t; want %t, %t, %t, %t", r.Verdict, r.Deny, out.Denied, out.Failed, tt.verdict, tt.deny, tt.denied, !tt.verdict)
			}
			if printed := guardrail.AppendResults(nil, out.Results, nil); strings.Contains(string(printed), "secret text") {
				t.Errorf("the result holds the value of a panic: %s", printed)
			}
		})
	}
}

func TestTransformationsAreNeverLost(t *testing.T) {
	check := func(id string) string { return `{"id":"` + id + `","parameters":{}}` }
	for _, tt := range []struct {
		name  string
		hooks []string
		want  string
		noA   bool // verdict of the check t.noA
	}{
		{"in one hook", []string{`{"id":"h","checks":[` + check("t.a") + `,` + check("t.b") + `,` + check("t.noA") + `]}`}, "xab|yab", true},
		{"in a sequential hook", []string{`{"id":"h","sequential":true,"checks":[` + check("t.a") + `,` + check("t.noA") + `,` + check("t.b") + `]}`}, "xab|yab", false},
		{"in a mutator", []string{`{"id":"h","type":"mutator","checks":[` + check("t.a") + `,` + check("t.noA") + `]}`}, "xa|ya", false},
		{"in two hooks", []string{`{"id":"h","checks":[` + check("t.a") + `]}`, `{"id":"i","checks":[` + check("t.noA") + `]}`, `{"id":"j","checks":[` + check("t.b") + `]}`}, "xab|yab", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var hooks []*guardrail.Hook
			for _, text := range tt.hooks {
				hooks = append(hooks, hookOf(t, table, text))
			}
			in := input("x", "y")
			out := guardrail.Run(context.Background(), hooks, in, nil)
			if textsOf(out.Parts) != tt.want || !out.Transformed || textsOf(in.Parts) != "x|y" {
				t.Errorf("texts = %q (input %q), want %q", textsOf(out.Parts), textsOf(in.Parts), tt.want)
			}
			for _, r := range out.Results {
				for _, c := range r.Checks {
					if c.ID == "t.noA" && c.Verdict != tt.noA {
						t.Errorf("t.noA = %t, want %t", c.Verdict, tt.noA)
					}
				}
			}
		})
	}
}

func TestRemoteChecksRunTogetherWithinTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second, hour := `{"id":"t.second","parameters":{}}`, `{"id":"t.hour","parameters":{"timeout":3000}}`
		hooks := []*guardrail.Hook{
			hookOf(t, table, `{"id":"h","checks":[`+second+`,`+second+`,`+hour+`]}`),
			hookOf(t, table, `{"id":"i","checks":[`+second+`,`+second+`]}`),
			hookOf(t, table, `{"id":"j","sequential":true,"checks":[`+second+`,`+second+`]}`),
		}
		start := time.Now()
		out := guardrail.Run(context.Background(), hooks, input("x"), nil)
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("took %s, want 3s", took)
		}
		late := out.Results[0].Checks[2]
		if late.Error == nil || late.Error.Name != "TimeoutError" || late.ExecutionTime != 3000 || late.Verdict {
			t.Errorf("the late check = %+v, want a TimeoutError after 3000 ms", late)
		}
		if got := []int64{out.Results[1].ExecutionTime, out.Results[2].ExecutionTime}; !cmp.Equal(got, []int64{1000, 2000}) {
			t.Errorf("the others took %v ms, want 1000 and 2000", got)
		}
	})
}

func TestResultsHaveTheShapeOfTheSpecification(t *testing.T) {
	h := hookOf(t, table, `{"id":"h","deny":true,"checks":[{"id":"t.pass","parameters":{}},{"id":"t.fail","parameters":{}},{"id":"t.error","parameters":{}}],
		"on_fail":{"feedback":{"value":-3,"weight":0.5,"metadata":{"team":"a"}}},"on_success":{"feedback":{"value":1}}}`)
	printed := guardrail.AppendResults(nil, guardrail.Run(context.Background(), []*guardrail.Hook{h}, input("x"), nil).Results, nil)
	var both struct {
		Before []map[string]any `json:"before_request_hooks"`
	}
	if err := json.Unmarshal(printed, &both); err != nil {
		t.Fatal(err)
	}
	got := both.Before
	for _, c := range append(got[0]["checks"].([]any), got[0]) {
		m := c.(map[string]any)
		if _, err := time.Parse(time.RFC3339, m["created_at"].(string)); err != nil {
			t.Error(err)
		}
		delete(m, "created_at")
	}
	check := func(id string, verdict bool, more ...any) map[string]any {
		m := map[string]any{"id": id, "verdict": verdict, "data": nil, "execution_time": 0.0, "transformed": false, "log": nil, "fail_on_error": false}
		if len(more) > 0 {
			m["error"] = more[0]
		}
		return m
	}
	want := []map[string]any{{
		"verdict": false, "id": "h", "type": "guardrail", "transformed": false, "execution_time": 0.0, "async": false, "deny": true,
		"checks": []any{check("t.pass", true), check("t.fail", false), check("t.error", false, map[string]any{"name": "CheckError", "message": "broken"})},
		"feedback": map[string]any{"value": -3.0, "weight": 0.5, "metadata": map[string]any{"team": "a",
			"successfulChecks": "t.pass", "failedChecks": "t.fail", "erroredChecks": "t.error"}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results differ (-want +got):\n%s", diff)
	}
}

func TestChecksReadTheLastMessageAndTheirKinds(t *testing.T) {
	seen := ""
	spy := guardrail.NewTable(plain("t.spy", guardrail.Compiled{Run: func(_ context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		seen = textsOf(in.Parts)
		return guardrail.Verdict{Passed: true, Spans: []guardrail.Span{{Part: 0, From: 0, To: 1}}}, nil
	}}))
	in := input("system", "earlier", "last", "{}")
	in.Parts[0].Earlier, in.Parts[1].Earlier, in.Parts[3].Kind = true, true, guardrail.ToolArguments
	for params, want := range map[string]string{`{}`: "last|{}", `{"scope":"all"}`: "system|earlier|last|{}", `{"kinds":["text"]}`: "last", `{"kinds":["tool_arguments"]}`: "{}", `{"kinds":["thinking"]}`: ""} {
		seen = ""
		out := guardrail.Run(context.Background(), []*guardrail.Hook{hookOf(t, spy, `{"id":"h","checks":[{"id":"t.spy","parameters":`+params+`}]}`)}, in, nil)
		if seen != want || !out.Results[0].Verdict {
			t.Errorf("%s: the check saw %q (verdict %t), want %q", params, seen, out.Results[0].Verdict, want)
		}
		if spans := out.Results[0].Checks[0].Spans; want != "" && in.Parts[spans[0].Part].Text != strings.Split(want, "|")[0] {
			t.Errorf("%s: the place is in part %d", params, spans[0].Part)
		}
	}
}

func TestGuardrailsBecomeHooks(t *testing.T) {
	c, err := config.Parse([]byte(`{"provider":"openai","api_key":"k","input_guardrails":[
		{"deny":true,"async":true,"t.pass":{},"mine":{"id":"t.fail","is_enabled":false}},
		{"id":"g","pass":{},"t.pass":{"x":1}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	h, faults := table.CompileGuardrail("$.input_guardrails[0]", c.InputGuardrails[0], guardrail.Before)
	if len(faults) > 0 || !h.Deny || !h.Async || len(h.Checks) != 2 || h.Checks[1].ID != "t.fail" || !h.Checks[1].Disabled {
		t.Fatalf("hook = %+v, %v", h, faults)
	}
	out := guardrail.Run(context.Background(), []*guardrail.Hook{h}, input("x"), nil)
	if id := out.Results[0].ID; !strings.HasPrefix(id, "input_guardrail_") || len(id) != len("input_guardrail_")+3 {
		t.Errorf("id = %q", id)
	}
	_, faults = table.CompileGuardrail("$.input_guardrails[1]", c.InputGuardrails[1], guardrail.Before)
	want := []config.FieldError{{Path: "$.input_guardrails[1].pass", Message: `check "pass" not found`}, {Path: `$.input_guardrails[1]["t.pass"].x`, Message: "is not a parameter of t.pass"}}
	if diff := cmp.Diff(want, faults); diff != "" {
		t.Errorf("faults differ (-want +got):\n%s", diff)
	}
}

func TestSavedGuardrailsBecomeHooks(t *testing.T) {
	h, faults := table.CompileSaved(guardrail.Saved{ID: "pg-1", Checks: json.RawMessage(`[{"id":"t.fail","parameters":{},"is_enabled":true},{"id":"t.pass"}]`),
		Actions: json.RawMessage(`{"deny":true,"soft_deny_200":true,"on_fail":{"feedback":{}}}`)}, guardrail.After)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	out := guardrail.Run(context.Background(), []*guardrail.Hook{h}, input("x"), nil)
	if r := out.Results[0]; !out.Denied || !r.SoftDeny || r.ID != "pg-1" || r.Feedback == nil || r.Feedback.Value != -5 || r.Feedback.Weight != 1 {
		t.Errorf("outcome = %+v", out)
	}
	_, faults = table.CompileSaved(guardrail.Saved{ID: "pg-1", Checks: json.RawMessage(`[{"id":"t.nothing"},{"id":"t.pass","parameters":[]},{"id":"t.pass","parameters":{"timeout":0}}]`)}, guardrail.Before)
	var paths []string
	for _, f := range faults {
		paths = append(paths, f.Path)
	}
	if diff := cmp.Diff([]string{"checks[0].id", "checks[1].parameters", "checks[2].parameters.timeout"}, paths); diff != "" {
		t.Errorf("paths differ (-want +got):\n%s", diff)
	}
}
