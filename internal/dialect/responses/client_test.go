package responses_test

import (
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/responses"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

func check(t *testing.T, body string) *apierr.Error {
	t.Helper()
	var d jsonedit.Doc
	if err := d.Scan([]byte(body)); err != nil {
		t.Fatal(err)
	}
	return responses.Dialect{}.Check(api.Responses, &d)
}

func TestCheckNamesTheParameter(t *testing.T) {
	for _, tt := range []struct{ member, param, code string }{
		{`"input":"x"`, "model", dialect.CodeMissing},
		{`"model":null,"input":"x"`, "model", dialect.CodeMissing},
		{`"model":1,"input":"x"`, "model", dialect.CodeType},
		{`"model":"m","input":{}`, "input", dialect.CodeType},
		{`"model":"m","input":"x","temperature":2.5`, "temperature", dialect.CodeValue},
		{`"model":"m","input":"x","temperature":"hot"`, "temperature", dialect.CodeType},
		{`"model":"m","input":"x","top_p":-0.1`, "top_p", dialect.CodeValue},
		{`"model":"m","input":"x","top_logprobs":21`, "top_logprobs", dialect.CodeValue},
		{`"model":"m","input":"x","top_logprobs":1.5`, "top_logprobs", dialect.CodeType},
		{`"model":"m","input":"x","max_output_tokens":0`, "max_output_tokens", dialect.CodeValue},
		{`"model":"m","input":"x","max_output_tokens":99999999999999999999`, "max_output_tokens", dialect.CodeValue},
		{`"model":"m","input":"x","stream":"yes"`, "stream", dialect.CodeType},
		{`"model":"m","input":"x","tools":{}`, "tools", dialect.CodeType},
		{`"model":"m","input":"x","text":"long"`, "text", dialect.CodeType},
		{`"model":"m","input":"x","truncation":"some"`, "truncation", dialect.CodeValue},
	} {
		t.Run(tt.member, func(t *testing.T) {
			if err := check(t, "{"+tt.member+"}"); err == nil || err.Param != tt.param || err.Code != tt.code {
				t.Errorf("Check = %+v, want %s of %s", err, tt.code, tt.param)
			}
		})
	}
}

func TestCheckPassesWhatClientsSend(t *testing.T) {
	for _, body := range []string{
		codexRequest,
		`{"model":"m","prompt":{"id":"p"}}`,
		`{"model":"m","previous_response_id":"r"}`,
		`{"model":"m","input":"x","temperature":2,"top_p":0,"top_logprobs":20,"max_output_tokens":1,"truncation":"auto"}`,
		`{"model":"m","input":[],"temperature":null,"stream":null,"tools":null,"metadata":null}`,
		`{"model":"m","input":"x","conversation":"conv_1","something_new":[1]}`,
	} {
		if err := check(t, body); err != nil {
			t.Errorf("Check(%s) = %v, want none", body, err)
		}
	}
}

func TestProvidersErrorsAreMarked(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		status     int
		want       string
	}{
		{"its own form", `{"error":{"message":"m","code":null},"x":1}`, 400, `{"error":{"message":"m","code":null,"source":"provider"},"x":1,"provider":"p"}`},
		{"another form", `{"detail":"bad","code":"c"}`, 429, `{"error":{"message":"p answered 429: bad","type":"rate_limit_error","param":null,"code":"c","source":"provider"},"provider":"p"}`},
		{"nothing", ``, 502, `{"error":{"message":"p answered 502 with an empty body","type":"upstream_error","param":null,"code":null,"source":"provider"},"provider":"p"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(responses.Dialect{}.ProviderError([]byte("<"), []byte(tt.body), "p", tt.status)); got != "<"+tt.want {
				t.Errorf("ProviderError = %s, want %s", got, tt.want)
			}
		})
	}
}

func TestTapSeesEachStep(t *testing.T) {
	tap := responses.Dialect{}.NewTap(api.Responses)
	usage := llm.Usage{Known: true, Input: 2, CachedInput: 1, Output: 3, Reasoning: 1}
	for _, step := range []struct {
		data string
		want dialect.ResponseInfo
	}{
		{`{"type":"response.created","response":{"model":"m","status":"in_progress","usage":null}}`, dialect.ResponseInfo{Model: "m"}},
		{`not JSON`, dialect.ResponseInfo{Model: "m"}},
		{`{"type":"response.in_progress","response":{"model":"m"}}`, dialect.ResponseInfo{Model: "m"}},
		{`{"type":"response.output_item.added"}`, dialect.ResponseInfo{Model: "m", Begun: true}},
		{
			`{"type":"response.incomplete","response":{"model":"m","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"usage":{"input_tokens":3,"input_tokens_details":{"cached_tokens":1},"output_tokens":4,"output_tokens_details":{"reasoning_tokens":1}}}}`,
			dialect.ResponseInfo{Model: "m", Begun: true, Finish: "max_output_tokens", Finished: true, Terminated: true, Usage: usage},
		},
		{
			`{"type":"error","code":"c","message":"late"}`,
			dialect.ResponseInfo{Model: "m", Begun: true, Finish: "max_output_tokens", Finished: true, Terminated: true, Usage: usage, Failed: "late"},
		},
	} {
		tap.Event(sse.Event{Data: []byte(step.data)})
		if got := *tap.Info(); got != step.want {
			t.Errorf("after %s Seen = %+v, want %+v", step.data, got, step.want)
		}
	}
}

func TestFlatNamesFitOtherProviders(t *testing.T) {
	long := strings.Repeat("x", 50)
	r := mustDecode(t, `{"model":"m","input":"x","tools":[{"type":"namespace","name":"`+long+`","description":"","tools":[{"type":"custom","name":"`+long+`a"},{"type":"custom","name":"`+long+`b"}]}]}`)
	a, b := r.Tools[0].Name, r.Tools[1].Name
	if len(a) > 64 || len(b) > 64 || a == b {
		t.Errorf("names %s and %s, want two of at most 64 characters", a, b)
	}
}
