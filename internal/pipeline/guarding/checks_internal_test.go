package guarding

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/format/bodytext"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/guardrail"
	"modelgate/internal/identity/access"
	"modelgate/internal/pipeline/exchange"
)

// mustHook returns a hook with one check that denies.
func mustHook(t *testing.T, c guardrail.Compiled) *guardrail.Hook {
	t.Helper()
	table := guardrail.NewTable(guardrail.Definition{ID: "test.check", On: guardrail.Before | guardrail.After, Compile: func(*guardrail.Params) (guardrail.Compiled, error) { return c, nil }})
	check, faults := table.Check("$", config.Check{ID: "test.check"}, guardrail.After)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return &guardrail.Hook{ID: "h", Type: guardrail.TypeGuardrail, Deny: true, Checks: []*guardrail.Check{check}}
}

// denyBad fails for texts with the word bad.
func denyBad(_ context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
	for _, p := range in.Parts {
		if strings.Contains(p.Text, "bad") {
			return guardrail.Verdict{}, nil
		}
	}
	return guardrail.Verdict{Passed: true}, nil
}

func TestRowsOfARequestAreCheckedOneByOne(t *testing.T) {
	c := &rowChecks{ctx: t.Context(), pool: bytepool.New(0), request: new(exchange.Request), log: new(CheckLog), hooks: []*guardrail.Hook{mustHook(t, guardrail.Compiled{Run: denyBad})}, on: guardrail.Before}
	for _, tt := range []struct{ body, wrong string }{
		{"{\"a\":\"x\"}\r\n\n  \n{\"a\":\"y\"}", ""},
		{"{\"a\":\"x\"}\n\n \n{\"a\":\"a bad word\"}\n", "row 2: "},
		{"{\"a\":\"x\"}\n{", "not valid JSON"},
	} {
		out, err := c.checkRows([]byte(tt.body))
		if tt.wrong == "" && (err != nil || string(out) != tt.body) {
			t.Errorf("%q became %q, %v", tt.body, out, err)
		}
		if tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)) {
			t.Errorf("%q: %q, %v, want %q", tt.body, out, err, tt.wrong)
		}
	}
}

func TestHooksAreSortedByWhatTheyNeed(t *testing.T) {
	window := mustHook(t, guardrail.Compiled{Run: denyBad})
	complete := mustHook(t, guardrail.Compiled{Run: denyBad, Reach: guardrail.Reach{Complete: true}})
	with := func(h *guardrail.Hook, change func(*guardrail.Hook)) *guardrail.Hook {
		own := *h
		change(&own)
		return &own
	}
	quiet := func(h *guardrail.Hook) { h.Deny = false }
	for _, tt := range []struct {
		name string
		hook *guardrail.Hook
		want string
	}{
		{"a part is enough", window, "window"},
		{"all is needed", complete, "hold"},
		{"nothing is denied", with(complete, quiet), "observe"},
		{"in the background", with(window, func(h *guardrail.Hook) { h.Async = true }), "observe"},
		{"held by choice", with(window, func(h *guardrail.Hook) { h.Stream = config.StreamHold }), "hold"},
		{"all is needed and a window chosen", with(complete, func(h *guardrail.Hook) { h.Stream = config.StreamWindow }), "observe"},
	} {
		s := sortHooks([]*guardrail.Hook{tt.hook})
		got := map[int]string{len(s.hold): "hold", len(s.window): "window", len(s.observe): "observe"}[1]
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		trial := &Trial{Hooks: []*guardrail.Hook{tt.hook}, On: guardrail.After, Dialect: api.DialectChat, Identity: new(access.Identity), Chunks: []string{"a text"}}
		out, err := trial.Run(t.Context())
		if tt.hook.Async { // runs as if it were enforced
			tt.want = "window"
		}
		if err != nil || out.Mode != tt.want {
			t.Errorf("%s: a trial runs it as %+v, %v, want %s", tt.name, out, err, tt.want)
		}
	}
}

func TestTrialsTellChecksWhetherTheTextIsAStream(t *testing.T) {
	var streamed []bool
	hook := mustHook(t, guardrail.Compiled{Run: func(_ context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		streamed = append(streamed, in.Request.Stream)
		return guardrail.Verdict{Passed: true}, nil
	}})
	trial := &Trial{Hooks: []*guardrail.Hook{hook}, On: guardrail.After, Dialect: api.DialectChat, Identity: new(access.Identity), Body: []byte(`{"choices":[{"message":{"content":"a"}}]}`)}
	for _, chunks := range [][]string{nil, {"a"}} {
		trial.Chunks, streamed = chunks, nil
		if _, err := trial.Run(t.Context()); err != nil || len(streamed) != 1 || streamed[0] != (chunks != nil) {
			t.Errorf("chunks %q: the check received %v, %v", chunks, streamed, err)
		}
	}
}

// mustWindow returns a stream with a text of which a hook checks windows.
func mustWindow(hook *guardrail.Hook, text string) (*guardedStream, *streamText) {
	run := &responseRun{request: new(exchange.Request), log: new(CheckLog), res: &exchange.Response{Status: 200}, ctx: context.Background()}
	s := &guardedStream{run: run, hooks: streamHooks{window: []*guardrail.Hook{hook}}, results: make(map[*guardrail.Hook]*guardrail.HookResult)}
	part := new(streamText)
	part.part.Kind = guardrail.AllKinds
	part.raw.WriteString(text)
	return s, part
}

func TestRemoteChecksWaitForNewText(t *testing.T) {
	calls := 0
	hook := mustHook(t, guardrail.Compiled{Remote: true, Run: func(context.Context, *guardrail.Input) (guardrail.Verdict, error) {
		calls++
		return guardrail.Verdict{Passed: true}, nil
	}})
	s, part := mustWindow(hook, strings.Repeat("word ", remoteStep/5))
	for _, tt := range []struct {
		asked int
		want  int
	}{{0, 1}, {1, 0}, {remoteStep - 1, 0}} {
		part.asked, calls = tt.asked, 0
		if err := s.checkWindow(part); err != nil || calls != tt.want {
			t.Errorf("%d of %d bytes were checked before: %d calls, %v, want %d", tt.asked, remoteStep, calls, err, tt.want)
		}
	}
}

func TestEndOfATextIsCheckedOnce(t *testing.T) {
	calls := 0
	hook := mustHook(t, guardrail.Compiled{Transforms: true, Run: func(_ context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		calls++
		return guardrail.Verdict{Passed: true, Texts: []string{strings.ReplaceAll(in.Parts[0].Text, "secret", "***")}}, nil
	}})
	s, part := mustWindow(hook, "a secret")
	s.ended = true
	if err := s.checkWindow(part); err != nil || calls != 1 || len(part.changes) != 1 || part.changes[0].text != "a ***" {
		t.Errorf("%d calls made the changes %+v, %v, want one call", calls, part.changes, err)
	}
}

func TestReasonsNameOnlyWhatDenied(t *testing.T) {
	passed := guardrail.HookResult{ID: "h", Deny: true, Verdict: true, Checks: []guardrail.CheckResult{{ID: "c", Verdict: true}}}
	failed := guardrail.HookResult{ID: "g", Deny: true, Checks: []guardrail.CheckResult{{ID: "d"}}}
	for _, tt := range []struct {
		results []guardrail.HookResult
		want    string
	}{
		{[]guardrail.HookResult{passed}, "passed, which on_success denies: c (h)"},
		{[]guardrail.HookResult{failed}, "failed: d (g)"},
		{[]guardrail.HookResult{passed, failed}, "failed: d (g); passed, which on_success denies: c (h)"},
		{[]guardrail.HookResult{{Deny: true, Verdict: true}}, "denied it"},
		{nil, "denied it"},
	} {
		if got := reasonsOf(tt.results); got != tt.want {
			t.Errorf("reason %q, want %q", got, tt.want)
		}
	}
}

func TestChecksAddOnlySystemPrompts(t *testing.T) {
	d := &document{request: &exchange.Request{Operation: api.Chat, Dialect: api.DialectChat}, form: bodytext.Request}
	for role, want := range map[string]bool{"system": true, "developer": true, "user": false, "assistant": false, "": false} {
		body, err := d.addMessages([]byte(`{"messages":[{"role":"user","content":"hi"}]}`), []guardrail.Message{{Role: role, Text: "be kind"}})
		if added := err == nil && strings.Contains(string(body), "be kind"); added != want || (err != nil) == want {
			t.Errorf("a message of role %q gives %s, %v", role, body, err)
		}
	}
}

func TestFilesOfRowsAreKnownByTheirFirstCharacter(t *testing.T) {
	for text, want := range map[string]bool{
		"{": true, " \t\r\n{": true, "[": false, "  x{": false, "": false, "  ": false,
		strings.Repeat(" ", 4095) + "{": true, strings.Repeat(" ", 4096) + "{": false,
	} {
		if got := startsObject(bufio.NewReaderSize(strings.NewReader(text), 32<<10)); got != want {
			t.Errorf("%d bytes that end in %.3q: %t, want %t", len(text), text[max(len(text)-1, 0):], got, want)
		}
	}
}

func TestCallsOfChecksAreRecorded(t *testing.T) {
	var l CheckLog
	if l.HasCalls() {
		t.Error("a log without calls has calls")
	}
	l.addAttempts("c", &exchange.Trail{Attempts: []*exchange.Attempt{{}}})
	if !l.HasCalls() {
		t.Error("a call was not recorded")
	}
}

func TestChecksOfResponsesKnowTheRequest(t *testing.T) {
	buf, err := bytepool.New(0).Get(0)
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Release()
	buf.Fill(func(dst []byte) []byte { return append(dst, `{"messages":[{"role":"user","content":"hi"}]}`...) })
	r := &exchange.Request{Operation: api.Chat, Dialect: api.DialectChat, Client: chat.Dialect{}, Received: exchange.Received{Body: buf}}
	if d := checkedBody(r); d != nil {
		t.Errorf("a body that is not an object has the document %+v", d)
	}
	r.Received.Doc = new(jsonedit.Doc)
	if err := r.Received.Doc.Scan(buf.Bytes()); err != nil {
		t.Fatal(err)
	}
	if d, _ := checkedBody(r).(*document); d == nil || len(d.parts) != 1 || d.parts[0].Text != "hi" {
		t.Errorf("the request has the document %+v, want one with its text", d)
	}
	known := new(document)
	if r.Checking.Checked = known; checkedBody(r) != known {
		t.Error("the document that was checked is read again")
	}
}

func TestGuardedRequestsReportParametersThatCannotBeSet(t *testing.T) {
	var body strings.Builder
	for i := range jsonedit.MaxMembers {
		fmt.Fprintf(&body, `%c"m%d":1`, ",{"[min(i, 1)^1], i)
	}
	r := &exchange.Request{Received: exchange.Received{Doc: new(jsonedit.Doc)}}
	if err := r.Received.Doc.Scan([]byte(body.String() + "}")); err != nil {
		t.Fatal(err)
	}
	h := &RequestGuard{Params: &exchange.ConfigParams{Override: []jsonedit.Edit{{Name: "one_more", Value: []byte("1")}}, Path: "$.targets[0]"}}
	err := new(requestRun).configure(h, r, nil, new(CheckLog))
	if e := apierr.From(err); err == nil || e.Kind != apierr.Invalid || !strings.Contains(e.Message, "$.targets[0]") {
		t.Errorf("one member too many gives %v, want an error that names the target", err)
	}
}
