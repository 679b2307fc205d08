package chat_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/format/jsonedit"
)

// The least bodies that pass, into which rows put one more member.
var least = map[api.Operation]string{
	api.Chat:        `"model":"m","messages":[{"role":"user","content":"hi"}]`,
	api.Completions: `"model":"m","prompt":"hi"`,
	api.Embeddings:  `"model":"m","input":"hi"`,
	api.Images:      `"prompt":"hi"`,
	api.AudioSpeech: `"model":"m","input":"hi","voice":"alloy"`,
	api.Moderations: `"input":"hi"`,
}

func mustScan(t testing.TB, body string) *jsonedit.Doc {
	t.Helper()
	var d jsonedit.Doc
	if err := d.Scan([]byte(body)); err != nil {
		t.Fatalf("Scan(%.200s): %v", body, err)
	}
	return &d
}

// with is the least body of op and further members.
func with(op api.Operation, members string) string {
	return "{" + least[op] + "," + members + "}"
}

func checkBody(t testing.TB, op api.Operation, body string) *apierr.Error {
	t.Helper()
	return chat.Dialect{}.Check(op, mustScan(t, body))
}

// outcome is "" for a body that passes, else param and code.
func outcome(e *apierr.Error) string {
	if e == nil {
		return ""
	}
	return e.Param + " " + e.CodeOrDefault()
}

const (
	valueOf   = " invalid_value"
	typeOf    = " invalid_type"
	missingOf = " missing_required_parameter"
)

func repeat(n int, s string) string {
	return strings.TrimSuffix(strings.Repeat(s+",", n), ",")
}

func function(name string) string {
	return `{"type":"function","function":{"name":"` + name + `","parameters":{"type":"object","name":7}}}`
}

type row struct {
	name    string
	op      api.Operation
	members string
	want    string
}

func run(t *testing.T, rows []row, body func(row) string) {
	t.Helper()
	for _, tt := range rows {
		t.Run(tt.name, func(t *testing.T) {
			err := checkBody(t, tt.op, body(tt))
			if got := outcome(err); got != tt.want {
				t.Errorf("Check(%s, %.150s) = %q (%v), want %q", tt.op, body(tt), got, err, tt.want)
			}
		})
	}
}

func withMembers(r row) string { return with(r.op, r.members) }

func TestEveryLeastBodyPasses(t *testing.T) {
	for op, members := range least {
		if err := checkBody(t, op, "{"+members+"}"); err != nil {
			t.Errorf("Check(%s, {%s}) = %v, want none", op, members, err)
		}
	}
}

func TestMessagesSayTheRuleAndWhatWasSent(t *testing.T) {
	secret := strings.Repeat("secret", 30)
	for _, tt := range []struct{ members, want string }{
		{`"temperature":2.1`, "temperature must be a number from 0 to 2, not 2.1"},
		{`"n":0`, "n must be an integer from 1 to 128, not 0"},
		{`"max_tokens":"` + secret + `"`, "max_tokens must be an integer, not a string"},
		{`"n":` + strings.Repeat("9", 500), "n must be an integer from 1 to 128, not a number of 500 characters"},
		{`"tool_choice":"maybe"`, `tool_choice must be one of "none", "auto", "required", "any", not "maybe"`},
		{`"tool_choice":"` + secret + `"`, `tool_choice must be one of "none", "auto", "required", "any", not a string`},
		{`"stop":["a","b","c","d","e"]`, "stop must be an array of at most 4 strings, not one of 5"},
		{`"logit_bias":{"` + secret + `":101}`, "logit_bias." + secret[:32] + "… must be a number from -100 to 100, not 101"},
		{`"tools":[{"type":"function"}]`, "tools[0].function is required: send an object with the function's name"},
	} {
		err := checkBody(t, api.Chat, with(api.Chat, tt.members))
		if err == nil || err.Message != tt.want {
			t.Errorf("Check(%.60s) = %v, want %s", tt.members, err, tt.want)
		}
	}
}

func TestRefusalsAreBadRequestsOfThisDialect(t *testing.T) {
	err := checkBody(t, api.Chat, with(api.Chat, `"n":0`))
	const want = `{"error":{"message":"n must be an integer from 1 to 128, not 0","type":"invalid_request_error","param":"n","code":"invalid_value","source":"gateway"},"status":"failure","message":"n must be an integer from 1 to 128, not 0"}`
	if got := string(chat.Dialect{}.Error(err)); got != want || err.Status() != 400 {
		t.Errorf("Error = %d %s, want 400 %s", err.Status(), got, want)
	}
	if got := string(chat.Dialect{}.ErrorEvent([]byte("x"), err)); got != "xdata: "+want+"\n\n" {
		t.Errorf("ErrorEvent = %q", got)
	}
	if got := string(chat.Dialect{}.Terminator()); got != "data: [DONE]\n\n" {
		t.Errorf("Terminator = %q", got)
	}
}

func TestDefaultsWriteOutANullPrompt(t *testing.T) {
	for _, tt := range []struct {
		op         api.Operation
		body, want string
	}{
		{api.Completions, `{"model":"m", "prompt":null}`, `{"model":"m", "prompt":"<|endoftext|>"}`},
		{api.Completions, `{"model":"m","prompt":"x","stop":null}`, `{"model":"m","prompt":"x","stop":null}`},
		{api.Completions, `{"model":"m"}`, `{"model":"m"}`},
		{api.Images, `{"prompt":null}`, `{"prompt":null}`},
	} {
		d := mustScan(t, tt.body)
		if got := string(d.Apply(nil, chat.Dialect{}.Defaults(tt.op, d)...)); got != tt.want {
			t.Errorf("Defaults(%s, %s) makes %s, want %s", tt.op, tt.body, got, tt.want)
		}
	}
}

func TestStrictTargetsTakeFunctionsOnly(t *testing.T) {
	for _, tt := range []struct{ tools, want string }{
		{`[` + function("f") + `,{"function":{"name":"g"}}]`, ""},
		{`[` + function("f") + `,{"type":"web_search"}]`, "tools[1].type" + valueOf},
		{`[{"google_search":{}}]`, "tools[0].type" + valueOf},
		{`null`, ""},
	} {
		d := mustScan(t, with(api.Chat, `"tools":`+tt.tools))
		if err := chat.CheckFunctionTools(api.Chat, d); outcome(err) != tt.want {
			t.Errorf("FunctionsOnly(%s) = %v, want %q", tt.tools, err, tt.want)
		}
	}
}

// fourKB is a conversation with tools of about 4 KB, as clients send them.
func fourKB() string {
	var b strings.Builder
	b.WriteString(`{"model":"gpt-4o","temperature":0.7,"max_tokens":1024,"stream":true,"stream_options":{"include_usage":true},"top_p":1,"user":"u-1","messages":[{"role":"system","content":"You are a helpful assistant."}`)
	for i := range 6 {
		fmt.Fprintf(&b, `,{"role":"user","content":"%s"}`, strings.Repeat(fmt.Sprintf("Question %d of the talk, at some length. ", i), 12))
	}
	b.WriteString(`],"tools":[{"type":"function","function":{"name":"get_weather","description":"Get the weather","parameters":{"type":"object","properties":{"city":{"type":"string"},"unit":{"type":"string","enum":["c","f"]}},"required":["city"]}}}],"tool_choice":"auto"}`)
	return b.String()
}

func TestCheckOfAValidBodyAllocatesNothing(t *testing.T) {
	d := mustScan(t, fourKB())
	if n := testing.AllocsPerRun(100, func() { _ = chat.Dialect{}.Check(api.Chat, d) }); n > 0 {
		t.Errorf("Check allocates %v times, want never", n)
	}
}

func BenchmarkScanAlone(b *testing.B) {
	body := []byte(fourKB())
	var d jsonedit.Doc
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		_ = d.Scan(body)
	}
}

func BenchmarkCheckAlone(b *testing.B) {
	body := []byte(fourKB())
	var d jsonedit.Doc
	_ = d.Scan(body)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if err := (chat.Dialect{}).Check(api.Chat, &d); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzCheck(f *testing.F) {
	for op, members := range least {
		f.Add("{"+members+"}", string(op))
	}
	f.Add(fourKB(), string(api.Chat))
	f.Add(`{"tools":[{"function":{"name":{}}},[]],"logit_bias":{"a":{}}}`, string(api.Chat))
	f.Add(`{"prompt":[[1],"a",{}],"best_of":3,"n":null}`, string(api.Completions))
	f.Fuzz(func(t *testing.T, body, op string) {
		d := new(jsonedit.Doc)
		if d.Scan([]byte(body)) != nil {
			return
		}
		err := chat.Dialect{}.Check(api.Operation(op), d)
		if err != nil && (err.Param == "" || err.Code == "" || len(err.Message) > 400) {
			t.Fatalf("Check(%s, %q) = %+v: no param, no code or a long message", op, body, err)
		}
		if strict := chat.CheckFunctionTools(api.Operation(op), d); strict != nil && strict.Param == "" {
			t.Fatalf("FunctionsOnly(%q) = %+v: no param", body, strict)
		}
		chat.Dialect{}.Defaults(api.Operation(op), d)
	})
}
