package tools_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/provider/toolserver"
	"modelgate/internal/testing/toolservertest"
)

const elicitation = `{"elicitation":{"form":{}}}`

// asking makes the tool echo ask for a color before it answers with it.
func asking(up *toolservertest.Server) {
	const question = `{"mode":"form","message":"Which color?","requestedSchema":{"type":"object","properties":{"color":{"type":"string"}}}}`
	up.Handle("tools/call echo", func(x *toolservertest.Exchange) {
		if up.NoModern {
			answer := x.Ask("elicitation/create", question)
			x.Text("legacy %s%s", answer.Result, answer.Error)
			return
		}
		var p struct {
			InputResponses map[string]json.RawMessage
			RequestState   string
		}
		json.Unmarshal(x.Message.Params, &p)
		if p.RequestState != "state of the server" {
			x.Answer(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":%s}},"requestState":"state of the server"}}`,
				x.Message.ID, question))
			return
		}
		x.Text("modern %s", p.InputResponses["q"])
	})
}

// input is what a client of the modern era is asked.
type input struct {
	ResultType    string
	InputRequests map[string]struct {
		Method string
		Params json.RawMessage
	}
	RequestState string
}

func inputOf(t *testing.T, r response) (in input) {
	t.Helper()
	if err := json.Unmarshal(r.last(t).Result, &in); err != nil || in.ResultType != "input_required" || len(in.InputRequests) != 1 {
		t.Fatalf("not a question: %v, %d %q", err, r.status, r.messages)
	}
	return in
}

// answers returns the parameters that answer a question.
func (in input) answers(value string) string {
	for key := range in.InputRequests {
		return fmt.Sprintf(`"inputResponses":{%q:%s},"requestState":%q`, key, value, in.RequestState)
	}
	return ""
}

const red = `{"action":"accept","content":{"color":"red"}}`

func TestQuestionsReachClientsOfBothEras(t *testing.T) {
	for name, up := range eras(t) {
		t.Run(name, func(t *testing.T) {
			asking(up)
			g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL), server("two", up.URL)}})
			const call = `"name":"one__echo","arguments":{"text":"x"}`
			in := inputOf(t, g.modern("/mcp", "tools/call", call, elicitation))
			if strings.Contains(in.RequestState, "state of the server") {
				t.Error("the state of the server is not sealed")
			}
			done := g.modern("/mcp", "tools/call", call+","+in.answers(red), elicitation)
			if m := done.last(t); !strings.Contains(string(m.Result), name) || !strings.Contains(string(m.Result), "red") {
				t.Errorf("a modern client: %q", done.messages)
			}

			s := g.initialize("/mcp", elicitation)
			res := g.open(t.Context(), "POST", "/mcp", `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{`+call+`}}`, "Mcp-Session-Id", s.id)
			defer res.Body.Close()
			var got []string
			for m := range events(res.Body) {
				if got = append(got, m); len(got) == 1 {
					var q struct {
						ID     json.RawMessage
						Method string
					}
					json.Unmarshal([]byte(m), &q)
					if q.Method != "elicitation/create" {
						t.Fatalf("the first message is %s", m)
					}
					if res := s.post(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":` + red + `}`); res.status != 202 {
						t.Fatalf("the response: %d %q", res.status, res.messages)
					}
				}
			}
			if len(got) != 2 || !strings.Contains(got[1], "red") || !strings.Contains(got[1], `"id":"x"`) {
				t.Errorf("a legacy client: %q", got)
			}

			s = g.initialize("/mcp", "{}") // it cannot be asked
			m := s.call("tools/call", `{`+call+`}`).last(t)
			if m.Error == nil && !strings.Contains(string(m.Result), "32601") {
				t.Errorf("a client that cannot be asked: %s", m.Result)
			}
		})
	}
}

// TestStatesBelongToTheirCall returns the state of a question with other calls, by other
// callers, altered and twice.
func TestStatesBelongToTheirCall(t *testing.T) {
	up := modernServer(t)
	asking(up)
	g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL), server("two", up.URL)}})
	const call = `"name":"one__echo","arguments":{"text":"x"}`
	in := inputOf(t, g.modern("/mcp", "tools/call", call, elicitation))
	before := up.Count("tools/call echo")
	altered := in
	altered.RequestState = in.RequestState[:len(in.RequestState)-3] + "AAA"
	own := in
	own.RequestState = "state of the server"
	for name, tt := range map[string]struct {
		call, key string
		in        input
	}{
		"another caller":     {call, bobKey, in},
		"another server":     {strings.Replace(call, "one__", "two__", 1), aliceKey, in},
		"other arguments":    {strings.Replace(call, `"x"`, `"y"`, 1), aliceKey, in},
		"altered":            {call, aliceKey, altered},
		"that of the server": {call, aliceKey, own},
	} {
		res := g.modern("/mcp", "tools/call", tt.call+","+tt.in.answers(red), elicitation, "X-Gateway-Api-Key", tt.key)
		if m := res.last(t); m.Error == nil || m.Error.Code != -32602 {
			t.Errorf("%s: %q", name, res.messages)
		}
	}
	if n := up.Count("tools/call echo"); n != before {
		t.Errorf("the server got %d calls", n-before)
	}
}

// TestRulesAskAndDeny has a server whose tools that write need approval.
func TestRulesAskAndDeny(t *testing.T) {
	for name, up := range eras(t) {
		t.Run(name, func(t *testing.T) {
			up.Handle("tools/call fail", func(x *toolservertest.Exchange) { x.Text("ran") })
			asks, denies, distrusts := server("asks", up.URL), server("denies", up.URL), server("distrusts", up.URL)
			asks.TrustAnnotations, asks.Writes = true, toolserver.Ask
			denies.TrustAnnotations, denies.Destroys = true, toolserver.Deny
			distrusts.Writes = toolserver.Deny
			g := newGateway(t, options{servers: []*toolserver.Server{asks, denies, distrusts}})
			ran := func() int { return up.Count("tools/call fail") }
			text := func(r response) string { return string(r.last(t).Result) }

			if got := text(g.modern("/mcp/asks", "tools/call", `"name":"add","arguments":{"a":1,"b":1}`, "{}")); strings.Contains(got, "isError") {
				t.Errorf("a tool that only reads: %s", got)
			}
			if got := text(g.modern("/mcp/denies", "tools/call", `"name":"fail","arguments":{}`, elicitation)); !strings.Contains(got, "denies") || ran() != 0 {
				t.Errorf("denied: %s", got)
			}
			if got := text(g.modern("/mcp/distrusts", "tools/call", `"name":"add","arguments":{}`, elicitation)); !strings.Contains(got, "denies") {
				t.Errorf("annotations that are not trusted: %s", got)
			}
			const call = `"name":"fail","arguments":{"file":"a"}`
			if got := text(g.modern("/mcp/asks", "tools/call", call, "{}")); !strings.Contains(got, "elicitation") || ran() != 0 {
				t.Errorf("a client that cannot ask: %s", got)
			}
			in := inputOf(t, g.modern("/mcp/asks", "tools/call", call, elicitation))
			for key, q := range in.InputRequests {
				if !strings.Contains(string(q.Params), `{\"file\":\"a\"}`) {
					t.Errorf("the question %s does not show the arguments: %s", key, q.Params)
				}
			}
			const yes, no = `{"action":"accept","content":{"approve":true}}`, `{"action":"accept","content":{"approve":false}}`
			other := g.modern("/mcp/asks", "tools/call", strings.Replace(call, `"a"`, `"b"`, 1)+","+in.answers(yes), elicitation)
			if m := other.last(t); m.Error == nil || ran() != 0 {
				t.Errorf("other arguments: %q", other.messages)
			}
			if got := text(g.modern("/mcp/asks", "tools/call", call+","+in.answers(yes), elicitation)); !strings.Contains(got, "ran") || ran() != 1 {
				t.Errorf("approved: %s", got)
			}
			if m := g.modern("/mcp/asks", "tools/call", call+","+in.answers(yes), elicitation).last(t); m.Error == nil || ran() != 1 {
				t.Errorf("approved once, called twice: %s", m.Result)
			}
			for _, answer := range []string{no, `{"action":"decline"}`, `{"action":"cancel"}`, `{"action":"accept"}`, `{"action":"accept","content":{"approve":"true"}}`} {
				in := inputOf(t, g.modern("/mcp/asks", "tools/call", call, elicitation))
				if got := text(g.modern("/mcp/asks", "tools/call", call+","+in.answers(answer), elicitation)); !strings.Contains(got, "did not approve") || ran() != 1 {
					t.Errorf("%s: %s", answer, got)
				}
			}
			for _, r := range up.Requests("tools/call") {
				if strings.Contains(string(r.Message.Raw), "modelgate/approval") || strings.Contains(string(r.Message.Raw), "requestState") {
					t.Errorf("the server got %s", r.Message.Raw)
				}
			}
		})
	}
}

func TestChangedDefinitionsAreHeldBack(t *testing.T) {
	for name, up := range eras(t) {
		t.Run(name, func(t *testing.T) {
			s := server("one", up.URL)
			s.HoldChanged = true
			s.Own.Approved = map[toolserver.Item]string{
				{Kind: toolserver.Tool, Name: "add"}:  toolserver.Digest([]byte(up.Tools[1])),
				{Kind: toolserver.Tool, Name: "echo"}: "another digest",
			}
			g := newGateway(t, options{servers: []*toolserver.Server{s}})
			if got := names(t, g.modern("/mcp/one", "tools/list", "", "{}"), "tools", "name"); len(got) != 1 || got[0] != "add" {
				t.Errorf("listed: %q", got)
			}
			if m := g.modern("/mcp/one", "tools/call", `"name":"add","arguments":{"a":1,"b":1}`, "{}").last(t); m.Error != nil {
				t.Errorf("approved: %+v", m.Error)
			}
			for _, name := range []string{"echo", "slow"} {
				if m := g.modern("/mcp/one", "tools/call", `"name":"`+name+`","arguments":{}`, "{}").last(t); m.Error == nil || m.Error.Message != "unknown tool: "+name {
					t.Errorf("%s: %s", name, m.Result)
				}
			}
		})
	}
}

// TestParkedCallsOutliveARefusedAnswer returns a state with what is refused before the call
// goes on, and then as it should be.
func TestParkedCallsOutliveARefusedAnswer(t *testing.T) {
	up := legacyServer(t)
	asking(up)
	g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL)}})
	const call = `"name":"echo","arguments":{"text":"x"}`
	in := inputOf(t, g.modern("/mcp/one", "tools/call", call, elicitation))
	for name, res := range map[string]response{
		"other arguments": g.modern("/mcp/one", "tools/call", strings.Replace(call, `"x"`, `"y"`, 1)+","+in.answers(red), elicitation),
		"another caller":  g.modern("/mcp/one", "tools/call", call+","+in.answers(red), elicitation, "X-Gateway-Api-Key", bobKey),
	} {
		if m := res.last(t); m.Error == nil {
			t.Errorf("%s: %s", name, m.Result)
		}
	}
	if m := g.modern("/mcp/one", "tools/call", call+","+in.answers(red), elicitation).last(t); !strings.Contains(string(m.Result), "red") {
		t.Errorf("%s %+v", m.Result, m.Error)
	}
	if m := g.modern("/mcp/one", "tools/call", call+","+in.answers(red), elicitation).last(t); m.Error == nil {
		t.Errorf("answered twice: %s", m.Result)
	}
	if n := up.Count("tools/call echo"); n != 1 {
		t.Errorf("the server was called %d times", n)
	}
}

// TestApprovalsLastWhileTheServerAsks has a server that asks without a state of its own.
func TestApprovalsLastWhileTheServerAsks(t *testing.T) {
	up := modernServer(t)
	up.Handle("tools/call fail", func(x *toolservertest.Exchange) {
		if strings.Contains(string(x.Message.Params), `"q":`) {
			x.Text("ran")
			return
		}
		x.Answer(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{}}}}}`, x.Message.ID))
	})
	s := server("one", up.URL)
	s.Writes = toolserver.Ask
	g := newGateway(t, options{servers: []*toolserver.Server{s}})
	const call = `"name":"fail","arguments":{}`
	in := inputOf(t, g.modern("/mcp/one", "tools/call", call, elicitation))
	in = inputOf(t, g.modern("/mcp/one", "tools/call", call+","+in.answers(`{"action":"accept","content":{"approve":true}}`), elicitation))
	if m := g.modern("/mcp/one", "tools/call", call+","+in.answers(red), elicitation).last(t); !strings.Contains(string(m.Result), "ran") {
		t.Errorf("%s %+v", m.Result, m.Error)
	}
}
