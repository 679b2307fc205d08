package dataplane_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// idsOf returns the values of a member in JSON, in order.
func idsOf(body, member string) (ids []string) {
	for _, rest := range strings.Split(body, `"`+member+`":"`)[1:] {
		id, _, _ := strings.Cut(rest, `"`)
		ids = append(ids, id)
	}
	return ids
}

// Some providers number the calls of each response from zero, and leave out the index.
func TestCompleteCallsWithEqualIDsRemainTwo(t *testing.T) {
	t.Parallel()
	send := newCallGateway(t)
	chat := func(arguments string) string {
		return fmt.Sprintf(`data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"id":"call_0","type":"function","function":{"name":"f","arguments":%q}}]},"finish_reason":null}]}`+"\n\n", arguments)
	}
	chatEnd := `data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\n" + done
	both := `data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"id":"call_0","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"call_0","type":"function","function":{"name":"f","arguments":"{\"a\":2}"}}]},"finish_reason":null}]}` + "\n\n"
	for _, tt := range []struct{ name, target, response string }{
		{"chunks of chat", "chat", sseOf(chat(`{"a":1}`), chat(`{"a":2}`), chatEnd)},
		{"pieces of chat", "chat", sseOf(chat(`{"a"`), chat(`:1}`), chat(``), chat(`{"a"`), chat(`:2}`), chatEnd)},
		{"a chunk of chat", "chat", sseOf(both, chatEnd)},
		{"oracle", "oracle", sseOf(strings.ReplaceAll(oracleCall(`{"a":1}`)+oracleCall(`{"a":2}`), "call_1", "call_0"), `data: {"index":0,"finishReason":"tool_calls"}`+"\n\n")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := send(t, clientFormats[1], tt.target, tt.response, true)
			ids := idsOf(string(res.Body), "id")
			if ids = ids[len(ids)-min(2, len(ids)):]; !slices.Equal(ids, []string{"call_0", "call_0_2"}) {
				t.Errorf("calls %q, want call_0 and call_0_2", ids)
			}
			var sum strings.Builder
			for _, e := range sseData(res.Body) {
				sum.WriteString(str(at(e, "delta.partial_json")))
			}
			if sum.String() != `{"a":1}{"a":2}` {
				t.Errorf("arguments %s", sum.String())
			}
			if t.Failed() {
				t.Logf("%s", res.Body)
			}
		})
	}
}

// repeatedIDs is a conversation in which each turn has a call with the same id.
const repeatedIDs = `{"model":%q,"stream":%t,"messages":[{"role":"user","content":"hello"},` +
	`{"role":"assistant","content":null,"tool_calls":[{"id":"call_0","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_0","content":"one"},` +
	`{"role":"assistant","content":null,"tool_calls":[{"id":"call_0","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"call_0_2","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
	`{"role":"tool","tool_call_id":"call_0","content":"two"},{"role":"tool","tool_call_id":"call_0_2","content":"three"}]}`

// Anthropic and Bedrock reject a conversation in which two calls have one id.
func TestRepeatedIDsOfCallsAreMadeDistinctForProvidersThatRefuseThem(t *testing.T) {
	t.Parallel()
	send := newRequestRecorder(t)
	for target, member := range map[string]struct{ call, result string }{"messages": {"id", "tool_use_id"}, "converse": {"toolUseId", "toolUseId"}} {
		t.Run(target, func(t *testing.T) {
			_, sent, e := send(clientFormats[0], repeatedIDs, target, "m")
			want := []string{"call_0", "call_0_3", "call_0_2"}
			calls, results := idsOf(sent, member.call), idsOf(sent, member.result)
			if target == "converse" {
				calls = []string{calls[0], calls[2], calls[3]}
				results = []string{results[1], results[4], results[5]}
			}
			if !slices.Equal(calls, want) || !slices.Equal(results, want) {
				t.Errorf("sent calls %q and results %q, want %q:\n%s", calls, results, want, sent)
			}
			if notes := fmt.Sprint(e["params"]); !strings.Contains(notes, "messages[3].tool_calls[0]") || !strings.Contains(notes, "call_0_3") {
				t.Errorf("the log names %s, want the call", notes)
			}
		})
	}
	if _, sent, _ := send(clientFormats[0], repeatedIDs, "cohere", "m"); strings.Contains(sent, "call_0_3") {
		t.Errorf("sent to a provider that accepts them: %s", sent)
	}
}

// A provider that uses an id of an earlier turn again would make the client send
// both.
func TestIDOfAnEarlierTurnIsNotGivenAgain(t *testing.T) {
	t.Parallel()
	send := newCallGateway(t)
	client := clientFormats[1]
	client.body = `{"model":%q,"stream":%t,"max_tokens":100,"messages":[{"role":"user","content":"hello"},{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"a"}]}]}`
	end := `data: {"id":"c","model":"served","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\n" + done
	for stream, response := range map[bool]string{true: sseOf(chatCall(`{"a":1}`), end), false: completeCall(`{"a":1}`)} {
		res := send(t, client, "chat", response, stream)
		if ids := idsOf(string(res.Body), "id"); !slices.Contains(ids, "call_1_2") || slices.Contains(ids, "call_1") {
			t.Errorf("stream %t: calls %q, want call_1_2:\n%s", stream, ids, res.Body)
		}
	}
}

// unnumbered returns a conversation in chat whose messages follow the first.
func unnumbered(messages ...string) string {
	return `{"model":%q,"stream":%t,"messages":[{"role":"user","content":"hello"},` + strings.Join(messages, ",") + `]}`
}

// Google's endpoint for chat has made calls with empty ids.
func TestCallsWithoutIDsAreCarriedWithTheirResults(t *testing.T) {
	t.Parallel()
	send := newRequestRecorder(t)
	const (
		both   = `{"role":"assistant","content":null,"tool_calls":[{"id":"","type":"function","function":{"name":"f","arguments":"{}"}},{"type":"function","function":{"name":"g","arguments":"{}"}}]}`
		third  = `{"role":"assistant","content":null,"tool_calls":[{"id":null,"type":"function","function":{"name":"f","arguments":"{}"}}]}`
		known  = `{"role":"assistant","content":null,"tool_calls":[{"id":"call_numbered_0","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"","type":"function","function":{"name":"f","arguments":"{}"}}]}`
		result = `{"role":"tool","tool_call_id":"","content":"x"}`
	)
	named := func(name string) string { return `{"role":"tool","name":"` + name + `","content":"x"}` }
	for _, tt := range []struct {
		name    string
		body    string
		results []string // the calls that they belong to
		refused string
	}{
		{"in order", unnumbered(both, result, result), []string{"0", "1"}, ""},
		{"by name", unnumbered(both, named("g"), named("f")), []string{"1", "0"}, ""},
		{"by name and in order", unnumbered(both, named("f"), result), []string{"0", "1"}, ""},
		{"the name of the last", unnumbered(both, named("g"), result), []string{"1", "0"}, ""},
		{"two turns", unnumbered(both, result, result, third, result), []string{"0", "1", "2"}, ""},
		{"a turn without a result", unnumbered(both, `{"role":"user","content":"no"}`, third, result), []string{"2"}, ""},
		{"an id that is taken", unnumbered(known, `{"role":"tool","tool_call_id":"call_numbered_0","content":"x"}`), []string{"0"}, ""},
		{"more results than calls", unnumbered(third, result, result), nil, "messages[3].tool_call_id"},
		{"another name", unnumbered(third, named("g")), nil, "messages[2].tool_call_id"},
		{"a duplicated name", unnumbered(both, named("g"), named("g")), nil, "messages[3].tool_call_id"},
		{"an id of no call", unnumbered(third, `{"role":"tool","tool_call_id":"call_numbered_0x","content":"x"}`), nil, "messages[2].tool_call_id"},
		{"no name", unnumbered(`{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"arguments":"{}"}}]}`), nil, "messages[1].tool_calls[0]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res, sent, _ := send(clientFormats[0], tt.body, "messages", "m")
			var results []string
			for _, id := range idsOf(sent, "tool_use_id") {
				results = append(results, strings.TrimPrefix(id, "call_numbered_"))
			}
			if !slices.Equal(results, tt.results) {
				t.Errorf("results of %q, want %q: %s %s", results, tt.results, sent, res.Body)
			}
			if tt.refused != "" && (res.Status != 400 || !strings.Contains(string(res.Body), tt.refused)) {
				t.Errorf("status %d: %s", res.Status, res.Body)
			}
		})
	}
	for _, target := range dialectTargets[1:] {
		res, sent, e := send(clientFormats[0], unnumbered(both, result, result), target, "m")
		if sent == "" {
			t.Errorf("%s: nothing was sent: %s", target, res.Body)
		}
		if notes := fmt.Sprint(e["params"]); !strings.Contains(notes, "messages[1].tool_calls[0].id") || !strings.Contains(notes, "call_numbered_1") {
			t.Errorf("%s: the log names %s, want the calls", target, notes)
		}
	}
}
