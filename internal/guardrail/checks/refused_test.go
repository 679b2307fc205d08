package checks_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/guardrail"
	"modelgate/internal/guardrail/checks"
)

// answering returns a service that answers with a status and a body.
func answering(status int, body string) simulator {
	return func(*http.Request, string) (int, io.Reader, error) { return status, strings.NewReader(body), nil }
}

// A text that a service refuses, or whose response is too large because of it, was not read.
// An outage, a wrong credential and a wrong response say nothing about the text.
func TestTextsThatAServiceRefusesAreNotRead(t *testing.T) {
	const hook, lakera, pii = `{"webhookURL":"https://hook.example"}`, `{"credentials":{"apiKey":"k"}}`, `{"credentials":{"apiKey":"k","resourceName":"r"}}`
	type row struct {
		id, params string
		service    simulator
		unread     bool
	}
	rows := []row{
		{"azure.pii", pii, answering(200, `{"results":{"documents":[],"errors":[{"id":"0","error":{"code":"InvalidDocument"}}]}}`), true},
		{"azure.pii", pii, answering(200, `{"results":{"documents":[],"errors":[]}}`), false},
		{"alibaba.guard", `{` + alibabaKey + `}`, answering(200, `{"Code":400,"Message":"too long"}`), true},
		{"alibaba.guard", `{` + alibabaKey + `}`, answering(200, `{"Code":408,"Message":"no permission"}`), false},
		{"default.webhook", hook, answering(200, `{"verdict":true,"transformedData":{"request":{"json":`+strings.Repeat(`{"a":`, 300)+`1`+strings.Repeat(`}`, 300)+`}}}`), true},
		{"default.webhook", hook, answering(200, `{"verdict":true,"data":"`+strings.Repeat("x", 65<<10)+`"}`), true},
		{"default.webhook", hook, answering(200, `{"verdict":true,"data":"`+strings.Repeat("x", 16<<20)+`"}`), true},
		{"default.webhook", hook, answering(200, `{"verdict":"yes"}`), false},
		{"lakera.guard", lakera, answering(200, strings.Repeat(" ", 2<<20)), true},
		{"lakera.guard", lakera, answering(200, `{}`), false},
		{"default.log", `{"logURL":"https://hook.example"}`, answering(413, ``), false},
	}
	for status, unread := range map[int]bool{400: true, 413: true, 414: true, 415: true, 422: true, 302: false, 401: false, 403: false, 404: false, 429: false, 500: false, 503: false} {
		for id, params := range map[string]string{"default.webhook": hook, "lakera.guard": lakera, "azure.pii": pii} {
			rows = append(rows, row{id, params, answering(status, `{}`), unread})
		}
	}
	for _, tt := range rows {
		in := text(before, "my secret text")
		in.Document, in.Request = body(`{"model":"m"}`), &guardrail.Request{Header: http.Header{}}
		r, _ := run(t, checks.Services{Client: tt.service}, in, tt.id, tt.params)
		if r.Error == nil || r.Incomplete != tt.unread {
			t.Errorf("%s: error %v, incomplete %t; want an error and %t", tt.id, r.Error, r.Incomplete, tt.unread)
		}
	}
}

// The number of texts that are sent one by one can exhaust the time of a check; a single short
// text cannot.
func TestTimeoutsByTheNumberOfTextsAreNotRead(t *testing.T) {
	for n, unread := range map[int]bool{1: false, 5: true} {
		asked := 0
		s := simulator(func(req *http.Request, _ string) (int, io.Reader, error) {
			if asked++; asked == n {
				<-req.Context().Done()
				return 0, nil, req.Context().Err()
			}
			return 200, strings.NewReader(`{"categoriesAnalysis":[]}`), nil
		})
		in := text(before, slices.Repeat([]string{"short"}, n)...)
		in.Request = &guardrail.Request{Header: http.Header{}}
		r, _ := run(t, checks.Services{Client: s}, in, "azure.contentSafety", `{"timeout":100,"credentials":{"apiKey":"k","resourceName":"r"}}`)
		if r.Error == nil || r.Error.Name != "TimeoutError" || r.Incomplete != unread {
			t.Errorf("%d texts: error %v, incomplete %t; want a timeout and %t", n, r.Error, r.Incomplete, unread)
		}
	}
}

// So does the number of attempts that the checks of a config may make.
func TestTextsBeyondTheAttemptsAreNotRead(t *testing.T) {
	for n, unread := range map[int]bool{1: false, 5: true} {
		left := n - 1
		in := text(before, slices.Repeat([]string{"see https://good.example"}, n)...)
		in.Request = &guardrail.Request{Header: http.Header{}, CountRequest: func() error {
			if left--; left < 0 {
				return errors.New("no attempts are left")
			}
			return nil
		}}
		r, _ := run(t, checks.Services{Client: answering(200, `{"categoriesAnalysis":[]}`)}, in, "azure.contentSafety", `{"credentials":{"apiKey":"k","resourceName":"r"}}`)
		if r.Error == nil || r.Incomplete != unread {
			t.Errorf("%d texts: error %v, incomplete %t; want an error and %t", n, r.Error, r.Incomplete, unread)
		}
	}
}

// A module has nothing but what was sent, so whatever goes wrong can be the client's choice.
func TestErrorsOfModulesAreOfWhatWasSent(t *testing.T) {
	for name, code := range map[string][]byte{"trap": {0x00}, "loop": loop, "nothing": nil, "echo": echo, "flood": flood, "allocate": allocate} {
		params := fmt.Sprintf(`{"code":%q,"timeout":%d}`, base64.StdEncoding.EncodeToString(assemble("x", code...)), map[bool]int{true: 200, false: 30000}[name == "loop"])
		if r, _ := run(t, checks.Services{}, text(before, "hi"), "default.wasm", params); r.Error == nil || !r.Incomplete {
			t.Errorf("%s: error %v, incomplete %t", name, r.Error, r.Incomplete)
		}
	}
}

func TestRepliesWithoutAVerdictAreIncomplete(t *testing.T) {
	for _, reply := range []string{`I think so`, `{"verdict":"yes"}`, ``} {
		in := asking(text(before, "hello"), func(*guardrail.Model, guardrail.ModelCall) (guardrail.ModelResponse, error) {
			return guardrail.ModelResponse{Text: reply}, nil
		})
		if r, _ := run(t, checks.Services{}, in, "gateway.modelCheck", `{"model":"@p/m","instructions":"x","failOnError":false}`); r.Error == nil || !r.Incomplete {
			t.Errorf("%q: error %v, incomplete %t", reply, r.Error, r.Incomplete)
		}
	}
}

// Every URL of a text is checked, or the text was not read.
func TestEveryURLIsChecked(t *testing.T) {
	s := checks.Services{Client: simulator(func(req *http.Request, _ string) (int, io.Reader, error) {
		if req.URL.Host == "gone.example" {
			return 404, strings.NewReader(""), nil
		}
		return 200, strings.NewReader(""), nil
	})}
	var many strings.Builder
	for i := range 21 {
		many.WriteString(fmt.Sprintf("https://good.example/%d ", i))
	}
	for _, tt := range []struct{ name, text, params, want string }{
		{"after 200 times the same", strings.Repeat("https://good.example/a ", 200) + "https://gone.example", `{}`, "failed"},
		{"after 5,000 times the same", strings.Repeat("https://good.example/a ", 5000) + "https://gone.example", `{}`, "failed"},
		{"5,000 times the same", strings.Repeat("https://good.example/a ", 5000), `{}`, "passed"},
		{"a long one", "https://good.example/" + strings.Repeat("a", 3000), `{}`, "error"},
		{"as long as may be", "https://good.example/" + strings.Repeat("a", 1900), `{}`, "passed"},
		{"too many", many.String(), `{}`, "failed"},
		{"too many that must be invalid", many.String(), `{"not":true}`, "error"},
	} {
		r, _ := run(t, s, text(after, tt.text), "default.validUrls", tt.params)
		if got := resultOf(r); got != tt.want || r.Error != nil && !r.Incomplete {
			t.Errorf("%s = %s, incomplete %t; want %s (%v)", tt.name, got, r.Incomplete, tt.want, r.Error)
		}
	}
}

// A check that requires something has not read a request whose text is in another form. One that
// looks for something that must not occur finds nothing there.
func TestChecksThatRequireTextHaveNotReadWhatIsNone(t *testing.T) {
	for _, tt := range []struct {
		id, params string
		required   bool
	}{
		{"default.contains", `{"words":["a"]}`, true}, {"default.contains", `{"words":["a"],"operator":"all"}`, true},
		{"default.contains", `{"words":["a"],"operator":"none","not":true}`, true}, {"default.contains", `{"words":["a"],"operator":"none"}`, false},
		{"default.contains", `{"words":["a"],"not":true}`, false}, {"default.regexMatch", `{"rule":"a"}`, true}, {"default.regexMatch", `{"rule":"a","not":true}`, false},
		{"default.wordCount", `{"minWords":2}`, true}, {"default.wordCount", `{"maxWords":2}`, false}, {"default.endsWith", `{"suffix":"a"}`, true},
		{"default.containsCode", `{"format":"Go"}`, true}, {"default.containsCode", `{"format":"Go","not":true}`, false},
		{"default.jsonSchema", `{"schema":{"type":"object"}}`, true}, {"default.jsonKeys", `{"keys":["a"],"operator":"any"}`, true}, {"default.jsonKeys", `{"keys":["a"],"operator":"none"}`, false},
		{"default.validUrls", `{}`, true}, {"default.validUrls", `{"not":true}`, false}, {"default.pii", `{}`, false}, {"default.allUppercase", `{}`, false},
	} {
		if r, _ := run(t, checks.Services{}, text(after), tt.id, tt.params); r.Incomplete != tt.required {
			t.Errorf("%s %s: error %v, incomplete %t; want %t", tt.id, tt.params, r.Error, r.Incomplete, tt.required)
		}
	}
}
