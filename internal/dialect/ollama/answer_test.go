package ollama_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/dialect"
	"modelgate/internal/dialect/ollama"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

func streamed(t testing.TB, r *llm.Request, stream string) ([]llm.Event, *llm.Response, *llm.ProviderError, bool) {
	t.Helper()
	frames, err := lines(iotest.HalfReader(strings.NewReader(stream)))
	if err != nil {
		t.Fatal(err)
	}
	d := ollama.Dialect{}.NewDecoder(r, target)
	var events []llm.Event
	for _, f := range frames {
		events = d.Decode(events, f)
	}
	events = d.End(events)
	var a dialect.Assembler
	for i := range events {
		a.Add(&events[i])
	}
	res, fault, whole := a.Response()
	return events, res, fault, whole
}

func TestCallsWithoutIDsGetTheSameWholeAndStreamed(t *testing.T) {
	r := &llm.Request{Messages: []llm.Message{user(words("a"))}, Tools: []llm.Tool{patch}}
	const calls = `[{"function":{"name":"clock","arguments":{"a":1}}},{"function":{"name":"clock","arguments":{"a":1}}},{"id":"own","function":{"name":"patch","arguments":{"input":"x"}}}]`
	const tail = `"done":true,"done_reason":"stop","eval_count":2}`
	got, err := ollama.Dialect{}.DecodeResponse([]byte(`{"model":"m","created_at":"2024-05-24T20:57:43.3Z","message":{"content":"","tool_calls":`+calls+`},`+tail), r, target)
	if err != nil {
		t.Fatal(err)
	}
	events, inStream, _, whole := streamed(t, r, `{"model":"m","created_at":"2024-05-24T20:57:43.3Z","message":{"tool_calls":`+calls+`},"done":false}`+"\n"+`{"message":{},`+tail)
	if why := dialecttest.CheckEventOrder(events); why != "" || !whole {
		t.Errorf("order %q, whole %t", why, whole)
	}
	inStream.Dialect = "ollama"
	if diff := cmp.Diff(got, inStream); diff != "" {
		t.Errorf("streamed differs from whole (-whole +streamed):\n%s", diff)
	}
	want := &llm.Response{Dialect: "ollama", Model: "m", Created: 1716584263, Usage: llm.Usage{Output: 2, Known: true}, Choices: []llm.Choice{{
		Parts: []llm.Part{
			llm.ToolCall{ID: "call_1", Name: "clock", Arguments: `{"a":1}`}, llm.ToolCall{ID: "call_2", Name: "clock", Arguments: `{"a":1}`},
			llm.ToolCall{ID: "own", Name: "patch", Custom: true, Arguments: "x"},
		}, Stop: llm.StopTool, NativeFinishReason: "stop"}}}
	ids := map[string]bool{}
	for i, p := range got.Choices[0].Parts {
		call, expected := p.(llm.ToolCall), want.Choices[0].Parts[i].(llm.ToolCall)
		ids[call.ID] = true
		if strings.HasPrefix(expected.ID, "call_") {
			expected.ID = call.ID
		}
		want.Choices[0].Parts[i] = expected
	}
	if diff := cmp.Diff(want, got); diff != "" || len(ids) != 3 {
		t.Errorf("ids %v, differs (-want +got):\n%s", ids, diff)
	}
	r.Messages = append(r.Messages, user(words("b")))
	later, _ := ollama.Dialect{}.DecodeResponse([]byte(`{"message":{"tool_calls":`+calls+`}}`), r, target)
	if id := later.Choices[0].Parts[0].(llm.ToolCall).ID; ids[id] {
		t.Errorf("a later turn has the id %s again", id)
	}
}

func TestWordsEndWhereACallBegins(t *testing.T) {
	events, _, _, _ := streamed(t, nil, `{"model":"m","message":{"content":"a","tool_calls":[{"id":"c","function":{"name":"clock","arguments":{}}}]}}`+"\n"+`{"done":true}`)
	want := []llm.Event{
		{Kind: llm.EventStart, Model: "m"},
		{Kind: llm.EventPartStart, Opened: llm.Text{}}, {Kind: llm.EventDelta, Text: "a"}, {Kind: llm.EventPartEnd},
		{Kind: llm.EventPartStart, Part: 1, Opened: llm.ToolCall{ID: "c", Name: "clock"}}, {Kind: llm.EventDelta, Part: 1, Text: "{}"}, {Kind: llm.EventPartEnd, Part: 1},
		{Kind: llm.EventFinish, Stop: llm.StopTool}, {Kind: llm.EventUsage}, {Kind: llm.EventEnd},
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestStreamsThatFail(t *testing.T) {
	const hi = `{"model":"m","message":{"role":"assistant","thinking":"hi"},"done":false}` + "\n"
	for _, tt := range []struct{ name, stream, fault string }{
		{"an error in its place", hi + `{"error":"out of memory"}` + "\n" + hi, "out of memory"},
		{"an error at once", `{"error":"model not found"}`, "model not found"},
		{"it breaks off", hi + hi + "\n{nonsense\n{}\n[]", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			events, _, fault, whole := streamed(t, nil, tt.stream)
			said := ""
			if fault != nil {
				said = fault.Message
			}
			if why := dialecttest.CheckEventOrder(events); why != "" || whole || said != tt.fault {
				t.Errorf("order %q, whole %t, fault %q, want in order, not whole, and %q", why, whole, said, tt.fault)
			}
		})
	}
}

func TestMalformedResponsesAreErrors(t *testing.T) {
	for _, body := range []string{``, `[]`, `{}`, `{"error":"no"}`, `{"message":"no"}`} {
		if r, err := (ollama.Dialect{}).DecodeResponse([]byte(body), nil, target); err == nil {
			t.Errorf("DecodeResponse(%s) = %+v, want an error", body, r)
		}
	}
}

const recordings = "../../../../shared/recordings"

type plainLine struct {
	Model   string
	Message struct{ Content, Thinking string }
	Done    bool
	Reason  string `json:"done_reason"`
	In      int64  `json:"prompt_eval_count"`
	Out     int64  `json:"eval_count"`
}

func TestReadsRecordedResponses(t *testing.T) {
	if _, err := os.Stat(recordings); err != nil {
		t.Skipf("no recordings in %s", recordings)
	}
	files, _ := filepath.Glob(filepath.Join(recordings, "ollama", "chat", "*.json"))
	n := 0
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var recorded struct {
			Exchanges []struct{ Response struct{ Body string } }
		}
		if err := json.Unmarshal(b, &recorded); err != nil {
			t.Fatal(err)
		}
		for _, e := range recorded.Exchanges {
			n++
			body := strings.TrimSpace(e.Response.Body)
			var want plainLine
			for line := range strings.SplitSeq(body, "\n") {
				var l plainLine
				if err := json.Unmarshal([]byte(line), &l); err != nil {
					t.Fatal(err)
				}
				l.Message.Content = want.Message.Content + l.Message.Content
				want = l
			}
			_, got, fault, whole := streamed(t, nil, body)
			if fault != nil || !whole {
				t.Errorf("%s: fault %v, whole %t", file, fault, whole)
			}
			mustSay(t, file, want, got)
			if !strings.Contains(body, "\n") {
				got, err := ollama.Dialect{}.DecodeResponse([]byte(body), nil, target)
				if err != nil {
					t.Fatal(err)
				}
				mustSay(t, file, want, got)
			}
		}
	}
	if n < 2 {
		t.Errorf("%d answers recorded, want at least 2", n)
	}
}

func mustSay(t *testing.T, file string, want plainLine, r *llm.Response) {
	t.Helper()
	c := r.Choices[0]
	got := plainLine{Model: r.Model, Done: true, Reason: c.NativeFinishReason, In: r.Usage.Input, Out: r.Usage.Output}
	got.Message.Content = c.Parts[0].(llm.Text).Text
	if diff := cmp.Diff(want, got); diff != "" || c.Stop != llm.StopEnd {
		t.Errorf("%s: stop %s (-want +got):\n%s", file, c.Stop, diff)
	}
}
