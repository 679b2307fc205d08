package policy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/limits/policy"
	"modelgate/internal/limits/quota"
)

// chat returns a chat body in which a tool is called with these arguments, one after
// the other, and returns these results.
func chat(arguments, results []string) string {
	var list []string
	for i := range arguments {
		list = append(list,
			fmt.Sprintf(`{"role":"assistant","tool_calls":[{"id":"c%d","type":"function","function":{"name":"read","arguments":%q}}]}`, i, arguments[i]),
			fmt.Sprintf(`{"role":"tool","tool_call_id":"c%d","content":%q}`, i, results[i]))
	}
	return `{"model":"m","messages":[{"role":"user","content":"go"},` + strings.Join(list, ",") + `]}`
}

// repeated returns n copies of text.
func repeated(text string, n int) []string {
	return strings.Split(strings.TrimSuffix(strings.Repeat(text+"\n", n), "\n"), "\n")
}

func TestLoopsAreDetected(t *testing.T) {
	same, stalled := policy.Loop{SameCalls: 3}, policy.Loop{Stalled: 3}
	distinct := []string{`{"p":1}`, `{"p":2}`, `{"p":3}`, `{"p":4}`}
	for _, tt := range []struct {
		name string
		loop policy.Loop
		body string
		want string // in the message; empty for none
	}{
		{"the same call, chat", same, chat(repeated(`{"p":1}`, 3), distinct[:3]), `the tool "read" was called 3 times`},
		{"spaces, order and escapes do not matter", same, chat([]string{`{"p":1,"q":"a"}`, `{ "q":"a", "p":1 }`, `{"p":1,"q":"\u0061"}`}, distinct[:3]), "3 times"},
		{"the same call, below the threshold", same, chat(repeated(`{"p":1}`, 2), distinct[:2]), ""},
		{"other arguments", same, chat(distinct, distinct), ""},
		{"large integers differ", same, chat([]string{`{"p":9007199254740993}`, `{"p":9007199254740992}`, `{"p":9007199254740994}`}, distinct[:3]), ""},
		{"functions", same, `{"messages":[` + strings.Join(repeated(`{"role":"assistant","function_call":{"name":"read","arguments":"{}"}}`, 3), ",") + `]}`, "3 times"},
		{"messages", same, `{"messages":[` + strings.Join(repeated(`{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"tool_use","id":"1","name":"read","input":{"p":1}}]}`, 3), ",") + `]}`, "3 times"},
		{"responses", same, `{"input":[` + strings.Join(repeated(`{"type":"function_call","call_id":"1","name":"read","arguments":"{}"}`, 3), ",") + `]}`, "3 times"},
		{"gemini", same, `{"contents":[` + strings.Join(repeated(`{"role":"model","parts":[{"functionCall":{"name":"read","args":{"p":1}}}]}`, 3), ",") + `]}`, "3 times"},
		{"gemini, the other spelling", same, `{"contents":[` + strings.Join(repeated(`{"role":"model","parts":[{"function_call":{"name":"read","args":{"p":1}}}]}`, 3), ",") + `]}`, "3 times"},
		{"converse", same, `{"messages":[` + strings.Join(repeated(`{"role":"assistant","content":[{"toolUse":{"toolUseId":"1","name":"read","input":{"p":1}}}]}`, 3), ",") + `]}`, "3 times"},

		{"no progress, chat", stalled, chat(distinct, repeated("not found", 4)), "the last 3 tool results repeat earlier ones"},
		{"no progress, below the threshold", stalled, chat(distinct[:3], repeated("not found", 3)), ""},
		{"progress at the end", stalled, chat(append(distinct, "5"), append(repeated("not found", 4), "found")), ""},
		{"no progress, messages", stalled, `{"messages":[` + strings.Join(repeated(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"no"}]}`, 4), ",") + `]}`, "last 3"},
		{"no progress, responses", stalled, `{"input":[` + strings.Join(repeated(`{"type":"function_call_output","call_id":"1","output":"no"}`, 4), ",") + `]}`, "last 3"},
		{"no progress, gemini", stalled, `{"contents":[` + strings.Join(repeated(`{"role":"user","parts":[{"functionResponse":{"name":"read","response":{"e":"no"}}}]}`, 4), ",") + `]}`, "last 3"},
		{"no progress, converse", stalled, `{"messages":[` + strings.Join(repeated(`{"role":"user","content":[{"toolResult":{"toolUseId":"1","content":[{"text":"no"}]}}]}`, 4), ",") + `]}`, "last 3"},

		{"no history", same, `{"messages":[{"role":"user","content":"go"}]}`, ""},
		{"text input", same, `{"input":"go"}`, ""},
		{"no body", same, ``, ""},
		{"other types", same, `{"messages":{"role":1},"input":[1,[],{"type":2,"name":3}],"contents":[{"parts":7}]}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := rate("p", []string{"api_key"}, when("api_key", nil, "*"))
			p.Loop, p.Name = tt.loop, "agents"
			s := policy.Compile([]policy.Policy{p}, nil)
			f := facts()
			if !s.Governs(&f) {
				t.Fatal("the policy does not govern the request")
			}
			err := s.CheckSession(context.Background(), new(quota.Memory), &f, []byte(tt.body), false)
			if tt.want == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			e, ok := errors.AsType[*apierr.Error](err)
			if !ok || e.Status() != 429 || e.Code != policy.CodeLoop || !strings.Contains(e.Message, tt.want) || !strings.Contains(e.Message, `"agents"`) {
				t.Errorf("%v, want a 429 that says %q", err, tt.want)
			}
		})
	}
}

func TestLoopsOfOtherRequestsAreNotSearched(t *testing.T) {
	p := rate("p", []string{"session"}, when("api_key", nil, "*"))
	p.Loop.SameCalls = 1
	s := policy.Compile([]policy.Policy{p, rate("q", []string{"api_key"}, when("api_key", nil, "*"))}, nil)
	f := facts()
	f.Metadata = nil
	body := []byte(chat([]string{"{}"}, []string{""}))
	if err := s.CheckSession(context.Background(), new(quota.Memory), &f, body, false); err != nil {
		t.Errorf("a request without a session: %v", err)
	}
	f.Workspace = "v"
	if s.Governs(&f) {
		t.Error("a request of another workspace is governed")
	}
	if err := (*policy.Set)(nil).CheckSession(context.Background(), nil, &f, body, false); err != nil {
		t.Errorf("no policies: %v", err)
	}
}

func TestTheTimeOfASessionEnds(t *testing.T) {
	p := rate("p", []string{"session"}, when("api_key", nil, "*"))
	p.Window, p.Period, p.Time, p.Max = 0, policy.Period{Days: 1, Since: day("2026-11-01")}, true, 600
	s := policy.Compile([]policy.Policy{p}, nil)
	m := new(quota.Memory)
	f := facts()
	check := func(session string, after time.Duration) error {
		f.Metadata, f.Time = map[string]string{"session_id": session}, now.Add(after)
		return s.CheckSession(context.Background(), m, &f, nil, false)
	}
	for _, tt := range []struct {
		session string
		after   time.Duration
		refused bool
	}{
		{"s1", 0, false},
		{"s1", 599 * time.Second, false},
		{"s2", 599 * time.Second, false},
		{"s1", 600 * time.Second, true},
		{"s1", time.Hour, true},
		{"s2", 1198 * time.Second, false},
		{"s2", 1199 * time.Second, true},
		{"s3", time.Hour, false},
	} {
		err := check(tt.session, tt.after)
		if e, _ := errors.AsType[*apierr.Error](err); (err != nil) != tt.refused || e != nil && (e.Status() != 429 || e.Code != policy.CodeSession || e.Param != "metadata.session_id") {
			t.Errorf("%s after %v: %v, want it refused: %t", tt.session, tt.after, err, tt.refused)
		}
	}
	if got := s.Match(nil, &f); len(got) != 0 {
		t.Errorf("%d limits, want none: counters do not measure time", len(got))
	}
}

// countingStore counts the calls of a store.
type countingStore struct {
	quota.Memory
	calls int
}

func (c *countingStore) Reserve(ctx context.Context, now time.Time, claims []quota.Claim) (quota.Verdict, error) {
	c.calls++
	return c.Memory.Reserve(ctx, now, claims)
}

func TestTheStartOfASessionIsReadOnce(t *testing.T) {
	p := rate("p", []string{"session"}, when("api_key", nil, "*"))
	p.Window, p.Period, p.Time, p.Max = 0, policy.Period{Days: 1, Since: day("2026-11-01")}, true, 9_000
	s := policy.Compile([]policy.Policy{p}, nil)
	m := new(countingStore)
	f := facts()
	f.Metadata = map[string]string{"session_id": "s1"}
	for i := range 300 { // for more than an hour
		f.Time = now.Add(time.Duration(i) * 30 * time.Second)
		if err := s.CheckSession(context.Background(), m, &f, nil, false); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	if m.calls != 2 {
		t.Errorf("300 requests of a session called the store %d times, want twice", m.calls)
	}
	f.Time = now.Add(9_000 * time.Second)
	if err := s.CheckSession(context.Background(), m, &f, nil, false); err == nil {
		t.Error("the session did not end")
	}
}

// brokenStore is a store that fails.
type brokenStore struct{ quota.Memory }

func (*brokenStore) Reserve(context.Context, time.Time, []quota.Claim) (quota.Verdict, error) {
	return quota.Verdict{}, errors.New("no connection")
}

func TestAStoreThatFailsRefusesOnlyWhereThePolicySaysSo(t *testing.T) {
	for down, refused := range map[quota.WhenDown]bool{quota.DownCached: false, quota.DownOpen: false, quota.DownClosed: true} {
		p := rate("p", []string{"trace_id"}, when("api_key", nil, "*"))
		p.Window, p.Time, p.Max, p.Down = 0, true, 600, down
		f := facts()
		err := policy.Compile([]policy.Policy{p}, nil).CheckSession(context.Background(), new(brokenStore), &f, nil, false)
		if (err != nil) != refused {
			t.Errorf("down %d: %v, want it refused: %t", down, err, refused)
		}
	}
}

func TestTheErrorOfASessionSaysWhatWasUsed(t *testing.T) {
	p := rate("p", []string{"trace_id"}, when("api_key", nil, "*"))
	p.Window, p.Measure, p.Max, p.Name = 0, quota.Cost, 2_500_000_000, "agents"
	s := policy.Compile([]policy.Policy{p}, nil)
	f := facts()
	l := s.Match(nil, &f)[0]
	e, ok := errors.AsType[*apierr.Error](s.SessionError(l, quota.State{Used: 2_600_000_000}, now))
	if !ok || e.Status() != 429 || e.Code != policy.CodeSession || e.Param != "trace_id" || !strings.Contains(e.Message, `2.6 of 2.5 dollars`) {
		t.Errorf("%v; want a 429 that says 2.6 of 2.5 dollars", e)
	}
}

// FuzzHistory holds that no body makes the search for loops fail or take long.
func FuzzHistory(f *testing.F) {
	f.Add([]byte(chat([]string{"{}", "{}"}, []string{"a", "a"})))
	f.Add([]byte(`{"messages":[{"content":[{"type":"tool_use","name":`))
	f.Add([]byte(`{"contents":[{"parts":[{"functionCall":{"name":"\ud800","args":[[[[`))
	p := rate("p", []string{"api_key"}, when("api_key", nil, "*"))
	p.Loop = policy.Loop{SameCalls: 2, Stalled: 2}
	s := policy.Compile([]policy.Policy{p}, nil)
	f.Fuzz(func(t *testing.T, body []byte) {
		fs := facts()
		if err := s.CheckSession(context.Background(), nil, &fs, body, false); err != nil && apierr.From(err).Code != policy.CodeLoop {
			t.Errorf("%v", err)
		}
	})
}

func TestADryRunStartsNoSession(t *testing.T) {
	p := rate("p", []string{"session"}, when("api_key", nil, "*"))
	p.Time, p.Max = true, 60
	s := policy.Compile([]policy.Policy{p}, nil)
	m := new(quota.Memory)
	check := func(at time.Duration, dryRun bool) error {
		f := facts()
		f.Time = f.Time.Add(at)
		f.Metadata = map[string]string{policy.SessionField: "s1"}
		return s.CheckSession(context.Background(), m, &f, nil, dryRun)
	}
	if err := errors.Join(check(0, true), check(2*time.Minute, false), check(2*time.Minute, true)); err != nil {
		t.Errorf("a dry run started the session: %v", err)
	}
	if check(4*time.Minute, true) == nil || check(4*time.Minute, false) == nil {
		t.Error("a session of two minutes passed a limit of one")
	}
}
