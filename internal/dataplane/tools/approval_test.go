package tools_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/provider/toolserver"
)

const approve, disapprove = `{"action":"accept","content":{"approve":true}}`, `{"action":"accept","content":{"approve":false}}`

// foundCall returns the parameters of a call by call_tool.
func foundCall(tool, arguments string) string {
	return fmt.Sprintf(`"name":"call_tool","arguments":{"name":%q,"arguments":%s}`, tool, arguments)
}

// newApprovals returns a gateway whose tools need approval, and are found by searching.
func newApprovals(t *testing.T) (*gateway, *pets) {
	return newSearch(t, 96, func(s *toolserver.Server) { s.Writes = toolserver.Ask })
}

// TestToolsThatAreFoundAreApprovedByTheirOwnName approves calls by call_tool, and uses each approval
// for other calls, and twice.
func TestToolsThatAreFoundAreApprovedByTheirOwnName(t *testing.T) {
	for path, prefix := range map[string]string{"/mcp": "notes__", "/mcp/notes": "", "/mcp/desk": "notes__"} {
		t.Run(path, func(t *testing.T) {
			g, api := newApprovals(t)
			tool, arguments := prefix+"create_note_0", `{"path":{"id":"1"},"body":{"title":"a"}}`
			call := func(params string, h ...string) response {
				return g.modern(path, "tools/call", params, elicitation, h...)
			}

			if got := g.modern(path, "tools/call", foundCall(tool, arguments), "{}").last(t); !strings.Contains(string(got.Result), "does not support elicitation") {
				t.Errorf("a client that cannot ask: %s", got.Result)
			}
			in := inputOf(t, call(foundCall(tool, arguments)))
			for _, q := range in.InputRequests {
				var p struct{ Message string }
				json.Unmarshal(q.Params, &p)
				if want := "Allow the tool create_note_0 of the server notes to run with these arguments? " + arguments; p.Message != want {
					t.Errorf("the question is %q, want %q", p.Message, want)
				}
			}
			shared := foundCall(prefix+"search_note_1", arguments) // which another caller may use too
			for name, res := range map[string]response{
				"another caller":                 call(shared+","+inputOf(t, call(shared)).answers(approve), "X-Gateway-Api-Key", bobKey),
				"another tool":                   call(foundCall(prefix+"create_note_4", arguments) + "," + in.answers(approve)),
				"another tool, called directly":  call(`"name":"` + prefix + `create_note_4","arguments":` + arguments + "," + in.answers(approve)),
				"a tool that destroys":           call(foundCall(prefix+"delete_note_2", arguments) + "," + in.answers(approve)),
				"other arguments":                call(foundCall(tool, strings.Replace(arguments, `"1"`, `"2"`, 1)) + "," + in.answers(approve)),
				"the arguments of call_tool":     call(`"name":"` + tool + `","arguments":{"name":"` + tool + `","arguments":` + arguments + `},` + in.answers(approve)),
				"another state":                  call(foundCall(tool, arguments) + "," + strings.Replace(in.answers(approve), "mgq_", "mgq_A", 1)),
				"call_tool through call_tool":    call(foundCall(prefix+"call_tool", arguments) + "," + in.answers(approve)),
				"an answer to another question":  call(foundCall(tool, arguments) + `,"inputResponses":{"modelgate/approval":` + approve + `},"requestState":"mgq_"`),
				"the name of the tool, prefixed": call(foundCall("x__"+tool, arguments) + "," + in.answers(approve)),
			} {
				if m := res.last(t); m.Error == nil || m.Error.Code != -32602 {
					t.Errorf("%s: %q", name, res.messages)
				}
			}
			if n := api.count(); n != 0 {
				t.Fatalf("the API received %d requests without approval", n)
			}
			// An answer without a state asks again.
			inputOf(t, call(foundCall(tool, arguments)+`,"inputResponses":{"modelgate/approval":`+approve+`}`))

			if got := call(foundCall(tool, arguments) + "," + in.answers(approve)); !strings.Contains(got.messages[0], "/v1/notes0/1") || api.count() != 1 {
				t.Errorf("approved: %q", got.messages)
			}
			for name, again := range map[string]string{"by call_tool": foundCall(tool, arguments), "directly": `"name":"` + tool + `","arguments":` + arguments} {
				if m := call(again + "," + in.answers(approve)).last(t); m.Error == nil || api.count() != 1 {
					t.Errorf("approved once, called again %s: %s", name, m.Result)
				}
			}
			for _, answer := range []string{disapprove, `{"action":"decline"}`, `{"action":"cancel"}`, `{"action":"accept"}`} {
				in := inputOf(t, call(foundCall(tool, arguments)))
				refused := call(foundCall(tool, arguments) + "," + in.answers(answer))
				if !strings.Contains(refused.messages[0], "did not approve") || api.count() != 1 {
					t.Errorf("%s: %q", answer, refused.messages)
				}
				if m := call(foundCall(tool, arguments) + "," + in.answers(approve)).last(t); m.Error == nil || api.count() != 1 {
					t.Errorf("approved after %s: %s", answer, m.Result)
				}
			}
		})
	}
}

// TestApprovalShowsWhatIsSent names members of the arguments of call_tool twice.
func TestApprovalShowsWhatIsSent(t *testing.T) {
	g, api := newApprovals(t)
	for _, arguments := range []string{
		`{"name":"create_note_0","arguments":{"path":{"id":"harmless"}},"arguments":{"path":{"id":"other"}}}`,
		`{"name":"create_note_0","name":"delete_note_2","arguments":{"path":{"id":"harmless"}}}`,
		`{"name":"create_note_0","\u006eame":"delete_note_2","arguments":{"path":{"id":"harmless"}}}`,
	} {
		before, call := api.count(), `"name":"call_tool","arguments":`+arguments
		res := g.modern("/mcp/notes", "tools/call", call, elicitation)
		if m := res.last(t); m.Error != nil || strings.Contains(string(m.Result), "isError") {
			continue // refused
		}
		in := inputOf(t, res)
		shown := fmt.Sprintf("%s", in.InputRequests)
		done := g.modern("/mcp/notes", "tools/call", call+","+in.answers(approve), elicitation)
		if api.count() != before+1 {
			t.Fatalf("%s: %q", arguments, done.messages)
		}
		r, _ := api.last()
		note, id := strings.Contains(shown, "the tool create_note_0 of"), strings.Contains(shown, "harmless")
		if strings.Contains(r.URL.Path, "/notes0/") != note || strings.HasSuffix(r.URL.Path, "/harmless") != id {
			t.Errorf("%s: the question is %s, and the API got %s", arguments, shown, r.URL)
		}
	}
}

// TestLegacyClientsApproveToolsThatAreFound answers the question on the stream of the call.
func TestLegacyClientsApproveToolsThatAreFound(t *testing.T) {
	g, api := newApprovals(t)
	s := g.initialize("/mcp", elicitation)
	for n, answer := range []string{approve, disapprove, approve} {
		before := api.count()
		res := g.open(t.Context(), "POST", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%s}}`,
			n, foundCall("notes__create_note_0", `{"path":{"id":"1"}}`)), "Mcp-Session-Id", s.id)
		defer res.Body.Close()
		var got []string
		for m := range events(res.Body) {
			if got = append(got, m); len(got) > 1 {
				continue
			}
			var q struct {
				ID     json.RawMessage
				Params struct{ Message string }
			}
			json.Unmarshal([]byte(m), &q)
			if !strings.HasPrefix(q.Params.Message, "Allow the tool create_note_0 of the server notes ") || api.count() != before {
				t.Fatalf("call %d: the first message is %s", n, m)
			}
			if res := s.post(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":` + answer + `}`); res.status != 202 {
				t.Fatalf("call %d: the answer: %d %q", n, res.status, res.messages)
			}
			if res := s.post(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":` + approve + `}`); res.status == 202 {
				t.Errorf("call %d: a second answer was accepted", n)
			}
		}
		want, text := before, "did not approve"
		if answer == approve {
			want, text = before+1, "/v1/notes0/1"
		}
		if len(got) != 2 || !strings.Contains(got[1], text) || api.count() != want {
			t.Errorf("call %d: %q, the API received %d requests", n, got, api.count()-before)
		}
	}
}
