package guardrail_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"modelgate/internal/guardrail"
)

// dataOf returns the JSON of data.
func dataOf(t *testing.T, d *guardrail.Data) string {
	t.Helper()
	printed := guardrail.AppendResults(nil, nil, []guardrail.HookResult{{Checks: []guardrail.CheckResult{{Data: d}}}})
	var out struct {
		After []struct {
			Checks []struct{ Data json.RawMessage }
		} `json:"after_request_hooks"`
	}
	if err := json.Unmarshal(printed, &out); err != nil {
		t.Fatalf("%s: %v", printed, err)
	}
	return string(out.After[0].Checks[0].Data)
}

func TestDataIsOneObject(t *testing.T) {
	full := &guardrail.Data{Verdict: true, Not: true, Explanation: `a "b"`, TextExcerpt: "c\n", More: map[string]any{"index": 7, "matchedText": "d"}}
	for _, tt := range []struct {
		data *guardrail.Data
		want string
	}{
		{full, `{"verdict":true,"not":true,"explanation":"a \"b\"","textExcerpt":"c\n","index":7,"matchedText":"d"}`},
		{full.WithoutText(), `{"verdict":true,"not":true,"index":7}`},
		{new(guardrail.Data), `{"verdict":false,"not":false}`},
		{nil, `null`},
		{(*guardrail.Data)(nil).WithoutText(), `null`},
	} {
		got := dataOf(t, tt.data)
		if got != tt.want {
			t.Errorf("%+v is %s, want %s", tt.data, got, tt.want)
		}
		var fields map[string]any
		if err := json.Unmarshal([]byte(got), &fields); err != nil || len(fields) != len(tt.data.Fields()) {
			t.Errorf("Fields() = %v, want those of %s (%v)", tt.data.Fields(), got, err)
		}
	}
}

func TestResultsHaveTheirFields(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 60, time.UTC)
	before := []guardrail.HookResult{{
		Verdict: true, ID: "in\t1", Type: "guardrail", Transformed: true, ExecutionTime: 12, Async: true, CreatedAt: at, Deny: true, Skipped: true, VersionID: "v",
		Checks: []guardrail.CheckResult{
			{ID: "a", Verdict: true, Data: new(guardrail.Data), ExecutionTime: 3, Transformed: true, CreatedAt: at, Log: json.RawMessage(`{"x":1}`), FailOnError: true},
			{ID: "b", Error: &guardrail.CheckError{Name: "TimeoutError", Message: "late"}, CreatedAt: at},
		},
		Feedback: &guardrail.FeedbackResult{Value: -5, Weight: 0.5, Metadata: map[string]any{"k": "v"}},
	}}
	want := `{"before_request_hooks":[{"verdict":true,"id":"in\t1","type":"guardrail","transformed":true,"checks":[
		{"id":"a","verdict":true,"data":{"verdict":false,"not":false},"execution_time":3,"transformed":true,"created_at":"2026-01-02T03:04:05.00000006Z","log":{"x":1},"fail_on_error":true},
		{"id":"b","verdict":false,"data":null,"error":{"name":"TimeoutError","message":"late"},"execution_time":0,"transformed":false,"created_at":"2026-01-02T03:04:05.00000006Z","log":null,"fail_on_error":false}],
		"feedback":{"value":-5,"weight":0.5,"metadata":{"k":"v"}},"execution_time":12,"async":true,"created_at":"2026-01-02T03:04:05.00000006Z","deny":true,"skipped":true,"guardrail_version_id":"v"}],
		"after_request_hooks":[{"verdict":false,"id":"","type":"","transformed":false,"checks":[],"feedback":null,"execution_time":0,"async":false,"created_at":"0001-01-01T00:00:00Z","deny":false}]}`
	want = strings.NewReplacer("\n", "", "\t\t", "").Replace(want)
	if got := string(guardrail.AppendResults(nil, before, make([]guardrail.HookResult, 1))); got != want {
		t.Errorf("the results are\n%s, want\n%s", got, want)
	}
	if got := string(guardrail.AppendResults([]byte("x"), nil, nil)); got != `x{"before_request_hooks":[],"after_request_hooks":[]}` {
		t.Errorf("no results are %s", got)
	}
}
