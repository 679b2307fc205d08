package reqlog_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/model/llm"
	"modelgate/internal/records/reqlog"
)

func TestStrippedEntriesKeepTheirSpend(t *testing.T) {
	attempts := []reqlog.Attempt{{Target: "config", Provider: "openai", Status: 500, Error: "it said hello"}, {Provider: "openai", Status: 200, Took: 1}}
	e := reqlog.Entry{
		Time: time.Unix(1, 0), Trace: reqlog.Trace{TraceID: "t", SpanID: "s", ParentSpanID: "p", SpanName: "hello"}, Sender: reqlog.Sender{Organisation: "o", Workspace: "w", KeyID: "k", KeyName: "n", UserAgent: "hello"},
		Input: reqlog.Input{Method: "HELLO", Path: "/v1/hello", Model: "m", Config: "c", Prompt: reqlog.Prompt{ID: "i", Slug: "s", Version: 1}, RequestBytes: 8, Metadata: map[string]string{"a": "hello"}}, Origin: reqlog.Origin{Provider: "openai", ResponseModel: "m-1"},
		Result: reqlog.Result{Status: 400, ErrorSource: "provider", ErrorCode: "status_400", ErrorMessage: "hello", Usage: llm.Usage{Known: true, Input: 3}, Finish: "stop"}, Steps: reqlog.Steps{Attempts: attempts, Decisions: []reqlog.Decision{{Path: "config.strategy", Text: "hello"}}, Params: []string{"hello=dropped"}},
		Charge: reqlog.Charge{Cost: 5, Priced: true, Price: "row"}, Durations: reqlog.Durations{Total: 7},
		Level: reqlog.LevelNone, Bodies: new(reqlog.Bodies),
	}
	want := e
	want.Method, want.SpanName, want.ErrorMessage, want.UserAgent, want.Params, want.Bodies = "", "", "", "", nil, nil
	want.Path, want.Metadata = "/v1/…", map[string]string{"team": "x"}
	want.Attempts = []reqlog.Attempt{{Target: "config", Provider: "openai", Status: 500, Error: "not kept"}, attempts[1]}
	want.Decisions = []reqlog.Decision{{Path: "config.strategy"}}
	e.StripClientText("/v1/…", map[string]string{"team": "x"})
	if diff := cmp.Diff(want, e); diff != "" {
		t.Errorf("stripped (-want +got):\n%s", diff)
	}
	if attempts[0].Error == "not kept" {
		t.Error("the attempts of others were changed")
	}
}

func TestAnEntryIsWrittenWithItsBodiesWhereTheyAreWanted(t *testing.T) {
	e := reqlog.Entry{Level: reqlog.LevelFull, Bodies: &reqlog.Bodies{
		Request:  reqlog.Body{Type: "application/json", Data: []byte("{\"a\":\"\xff\n\"}"), Size: 99, Cut: true},
		Response: reqlog.Body{Type: "audio/mpeg", Size: 7, Cut: true},
	}}
	list, whole := string(e.AppendJSON(nil)), string(e.AppendJSONWithBodies(nil))
	const bodies = `,"request":{"content_type":"application/json","body":"{\"a\":\"�\n\"}","size":99,"truncated":true},` +
		`"response":{"content_type":"audio/mpeg","body":null,"size":7,"truncated":true}}`
	if want := list[:len(list)-1] + bodies; whole != want {
		t.Errorf("AppendWhole = %s\nwant %s", whole, want)
	}
	e.Bodies = &reqlog.Bodies{Request: reqlog.Body{Type: "text/plain"}}
	none := list[:len(list)-1] + `,"request":null,"response":null}`
	if got := string(e.AppendJSONWithBodies(nil)); got != none {
		t.Errorf("without bodies AppendWhole = %s", got)
	}
	e.Bodies = nil
	if got := string(e.AppendJSONWithBodies(nil)); got != none {
		t.Errorf("without anything kept AppendWhole = %s", got)
	}
}
